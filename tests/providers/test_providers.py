"""Readers by name: a provider's names become ours, and faults are counted."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wayeb_py.errors import DataError, UsageError
from wayeb_py.files.formats.block import AsideRow
from wayeb_py.providers.event_sources import find_provider_files, open_source, shared_schema

SHARED = Path(__file__).parents[2] / "../shared/data"


def read(
    path: Path, provider: str, mapping: dict[str, str] | None = None
) -> tuple[list[dict[str, Any]], list[AsideRow], dict[str, int]]:
    """The events of a provider's file, the rows set aside, and how many values could not be read."""
    sources = [open_source(file, provider, mapping) for file in find_provider_files([path], provider)]
    schema = shared_schema(sources)
    blocks = [block for source in sources for block in source.blocks()]
    events = pa.Table.from_batches([batch for block in blocks for batch in block.batches], schema).to_pylist()
    unreadable = {name: facts.count for block in blocks for name, facts in block.unreadable.items()}
    return events, [row for block in blocks for row in block.aside], unreadable


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def written(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder / name


NOAA = """MMSI,BaseDateTime,LAT,LON,SOG,COG,Heading,VesselName,IMO,CallSign,VesselType,Status,Length
367000140,2020-06-30T00:00:00,40.64409,-74.07157,0.0,-60.6,246.0,SAMUEL,IMO7702774,WYR3371,60.0,5.0,94
366999618,2020-06-30T00:00:01,40.54291,-74.02433,fast,348.0,349.0,,,,51,,26
,2020-06-30T00:00:02,40.5,-74.0,1,1,1,,,,30,7,
367000141,yesterday,40.5,-74.0,1,1,1,,,,30,7,
"""


def test_noaa_courses_are_unwrapped_and_codes_are_words(tmp_path: Path) -> None:
    events, aside, unreadable = read(written(tmp_path, "noaa.csv", NOAA), "noaa")
    assert events[0] == {
        "mmsi": 367000140, "ts": at("2020-06-30T00:00:00"), "lon": -74.07157, "lat": 40.64409, "speed": 0.0,
        "course": 349.0, "heading": 246.0, "type": "passenger", "name": "SAMUEL", "status": "moored",
        "IMO": "IMO7702774", "CallSign": "WYR3371", "Length": 94.0,
    }  # fmt: skip
    assert (events[1]["type"], events[1]["speed"], events[1]["status"]) == ("sar", None, None)
    assert unreadable == {"SOG": 1}
    assert [(row.row, row.reason) for row in aside] == [(4, "no key"), (5, "the time cannot be read")]


DMA = """# Timestamp,Type of mobile,MMSI,Latitude,Longitude,Navigational status,ROT,SOG,COG,Heading,Name,Ship type
31/12/2015 23:59:59,Class A,219000001,56.1,11.2,Under way using engine,0.0,10.3,48.1,47,FRIDA,Cargo
01/02/2016 00:00:00,Class A,219000002,56.2,11.3,Engaged in fishing,,3.1,359.9,,Unknown,Fishing
32/13/2016 00:00:00,Class A,219000003,56.2,11.3,Unknown value,,3.1,359.9,,Unknown,Undefined
"""


def test_dma_days_come_first_and_its_words_are_ours(tmp_path: Path) -> None:
    events, aside, _ = read(written(tmp_path, "dma.csv", DMA), "dma")
    assert events[0] == {
        "mmsi": 219000001, "ts": at("2015-12-31T23:59:59"), "lon": 11.2, "lat": 56.1, "speed": 10.3, "course": 48.1,
        "heading": 47.0, "type": "cargo", "name": "FRIDA", "status": "under way",
        "Type of mobile": "Class A", "ROT": 0.0,
    }  # fmt: skip
    assert (events[1]["ts"], events[1]["type"], events[1]["name"]) == (at("2016-02-01T00:00:00"), "fishing", None)
    assert events[1]["status"] == "fishing"
    assert [row.reason for row in aside] == ["the time cannot be read"]


BREST_ROWS = (
    "1443650402,228041600,-4.4657183,48.38249,0.1,511,5.1,-1\n1443650403,227705102,-4.4965,48.3824,1.5,14,3,-1\n"
)
BREST = {
    "with a header": "t,mmsi,lon,lat,speed,heading,cog,annotation\n" + BREST_ROWS,
    "without a header": BREST_ROWS,
    "zenodo": "sourcemmsi,navigationalstatus,rateofturn,speedoverground,courseoverground,trueheading,lon,lat,t\n"
    "228041600,0,0,0.1,5.1,511,-4.4657183,48.38249,1443650402\n227705102,7,-127,1.5,3,14,-4.4965,48.3824,1443650403\n",
    "milliseconds": "t,mmsi,lon,lat,speed,heading,cog,annotation\n"
    + BREST_ROWS.replace("1443650402", "1443650402000").replace("1443650403", "1443650403000"),
}


@pytest.mark.parametrize("text", BREST.values(), ids=BREST.keys())
def test_the_brest_files_in_all_their_forms_are_the_same_events(text: str, tmp_path: Path) -> None:
    events, aside, _ = read(written(tmp_path, "brest.csv", text), "brest")
    assert aside == []
    kept = [(one["mmsi"], one["ts"], one["lon"], one["speed"], one["course"], one["heading"]) for one in events]
    assert kept == [
        (228041600, at("2015-09-30T22:00:02"), -4.4657183, 0.1, 5.1, 511.0),
        (227705102, at("2015-09-30T22:00:03"), -4.4965, 1.5, 3.0, 14.0),
    ]


def test_a_plain_table_is_read_by_usual_names_and_a_mapping(tmp_path: Path) -> None:
    path = written(
        tmp_path, "plain.csv", "Time,Boat,Longitude,Latitude,SOG,Draught,crew\n2016-01-12 13:02:11.5,7,-1,50,5.9,3,8\n"
    )
    events, _, _ = read(path, "csv", {"mmsi": "Boat", "draught": "Draught"})
    assert events == [
        {
            "mmsi": 7, "ts": at("2016-01-12T13:02:11.500"), "draught": 3.0, "lon": -1.0, "lat": 50.0, "speed": 5.9,
            "crew": 8.0,
        }
    ]  # fmt: skip


def test_every_column_of_a_provider_is_kept_under_its_own_name(tmp_path: Path) -> None:
    rows = "1443650402,228186700,-4.45,48.38,0.0,511,36.5,stopped\n1443650403,228186700,-4.45,48.38,0.1,511,36.5,\n"
    for header in ("", "t,mmsi,lon,lat,speed,heading,cog,annotation\n"):
        events, aside, unreadable = read(written(tmp_path, "brest.csv", header + rows), "brest")
        assert [one["annotation"] for one in events] == ["stopped", None]
        assert (aside, unreadable) == ([], {})
    path = written(
        tmp_path,
        "buses.csv",
        "vehicle_id,timestamp,time,latitude,longitude,speed,trip_id,trip_headsign,status,current_status\n"
        "8929,1425708022,07:00,30.25,-97.75,10,1391220,1-North,late,2\n",
    )
    (event,) = read(path, "gtfs")[0]
    assert (event["trip_headsign"], event["trip"], event["speed"], event["time"]) == (
        "1-North",
        "1391220",
        36.0,
        "07:00",
    )
    assert (event["status"], event["gtfs_status"]) == ("2", "late")  # the word of the vocabulary is taken


def test_further_columns_that_differ_between_files_become_text(tmp_path: Path) -> None:
    for name, note in (("a", "7"), ("b", "seven")):
        written(tmp_path, f"{name}.csv", f"t,mmsi,lon,lat,note\n1443650402,1,-4.4,48.3,{note}\n")
    sources = [open_source(file, "brest") for file in find_provider_files([tmp_path], "brest")]
    schema = shared_schema(sources)
    batches = [batch for source in sources for block in source.blocks() for batch in block.batches]
    assert pa.Table.from_batches(batches, schema)["note"].to_pylist() == ["7", "seven"]


@pytest.mark.parametrize(
    ("scale", "speeds"), [("SOG*0.1", [0.3, 12.3]), ("SOG / 10", [0.3, 12.3]), ("SOG*3.6", [10.8, 442.8])]
)
def test_a_mapping_may_scale(tmp_path: Path, scale: str, speeds: list[float]) -> None:
    path = written(tmp_path, "tenths.csv", "mmsi,ts,SOG\n7,2016-01-12T00:00:00Z,3\n7,2016-01-12T00:00:01Z,123\n")
    events, _, _ = read(path, "csv", {"speed": scale})
    assert [one["speed"] for one in events] == speeds  # exactly: 3 tenths are 0.3


def test_a_column_whose_name_looks_like_a_scale_is_a_column(tmp_path: Path) -> None:
    path = written(tmp_path, "odd.csv", "mmsi,ts,SOG*10\n7,2016-01-12T00:00:00Z,3\n")
    assert read(path, "csv", {"speed": "SOG*10"})[0][0]["speed"] == 3.0


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"speed": "SOG*0"}, "scales by 0"),
        ({"ts": "when*0.001"}, "a key or a time is not scaled"),
        ({"speed": "SIG*0.1"}, "there is no column `SIG`"),
    ],
)
def test_a_scale_that_cannot_be_meant_is_told(tmp_path: Path, mapping: dict[str, str], message: str) -> None:
    path = written(tmp_path, "tenths.csv", "mmsi,when,SOG\n7,2016-01-12T00:00:00Z,3\n")
    with pytest.raises(DataError, match=message):
        read(path, "csv", {"ts": "when"} | mapping)


def test_a_table_without_a_header_is_told_its_columns(tmp_path: Path) -> None:
    path = written(tmp_path, "bare.csv", "7,2016-01-12T00:00:00Z,5,5\n8,2016-01-12T00:00:01Z,5,6\n")
    with pytest.raises(DataError, match="begins with a row") as caught:
        read(path, "csv")
    assert "--header t,mmsi,lon,lat" in str(caught.value)
    (file,) = find_provider_files([path], "csv")
    source = open_source(file, "csv", header=["mmsi", "t", "lon", "lat"])
    events = [row for block in source.blocks() for batch in block.batches for row in batch.to_pylist()]
    assert [(one["mmsi"], one["lat"]) for one in events] == [(7, 5.0), (8, 6.0)]
    with pytest.raises(UsageError, match="the file has 4 columns, and --header names 3"):
        open_source(file, "csv", header=["mmsi", "t", "lon"])
    with pytest.raises(UsageError, match="names one of them twice"):
        open_source(file, "csv", header=["mmsi", "t", "lon", "lon"])


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
@pytest.mark.parametrize("provider", ["csv", "noaa"])
def test_text_times_in_parquet_are_times(tmp_path: Path, provider: str, type_: pa.DataType) -> None:
    times = pa.array(["2020-06-30T00:00:00", "2020-06-30 00:01:00.5", "yesterday"]).cast(type_)
    pq.write_table(pa.table({"MMSI": [1, 1, 1], "BaseDateTime": times, "SOG": [1.0, 2.0, 3.0]}), tmp_path / "t.parquet")
    events, aside, _ = read(tmp_path / "t.parquet", provider)
    assert [one["ts"] for one in events] == [at("2020-06-30T00:00:00"), at("2020-06-30T00:01:00.500")]
    assert [row.reason for row in aside] == ["the time cannot be read"]


def test_a_table_with_an_unknown_key_says_what_to_write(tmp_path: Path) -> None:
    path = written(tmp_path, "plain.csv", "Time,Boat\n2016-01-12,7\n")
    with pytest.raises(DataError, match="which column is the key") as caught:
        read(path, "csv")
    assert "--map vehicle_id=COLUMN" in str(caught.value)
    with pytest.raises(DataError, match="no column `Baot`") as caught:
        read(path, "csv", {"mmsi": "Baot"})
    assert "did you mean `Boat`?" in str(caught.value)


def test_a_file_of_another_provider_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="a file of `noaa` has its time in `BaseDateTime`"):
        read(written(tmp_path, "dma.csv", DMA), "noaa")


# Sentences: a position report, a static report in two fragments, and what can go wrong with them.

POSITION = "!AIVDM,1,1,,B,15M67FC000G?ufbE`FepT@3n00Sa,0*5C"


def sentences(message: dict[str, Any], sequence: int = 1) -> list[str]:
    from pyais.encode import encode_dict

    return list(encode_dict(message, radio_channel="A", talker_id="AI", sentence_type="VDM", seq_id=sequence))


def tagged(sentence: str, time_s: int) -> str:
    return rf"\s:station,c:{time_s}*00\{sentence}"


def test_sentences_become_positions_with_the_time_of_reception(tmp_path: Path) -> None:
    for line in (tagged(POSITION, 1443650402), f"1443650402 {POSITION}", f"{POSITION},1443650402"):
        events, aside, _ = read(written(tmp_path, "one.nmea", line + "\n"), "nmea")
        assert aside == []
        assert events == [
            {
                "mmsi": 366053209, "ts": at("2015-09-30T22:00:02"), "lon": -122.341618, "lat": 37.802118, "speed": 0.0,
                "course": 219.3, "heading": 1.0, "type": None, "name": None, "status": "restricted manoeuvrability",
            }
        ]  # fmt: skip


def test_fragments_are_joined_across_lines_and_tell_names_of_later_positions(tmp_path: Path) -> None:
    static = sentences({"type": 5, "mmsi": 366053209, "shipname": "GOLDEN GATE", "ship_type": 60})
    assert len(static) == 2
    other = sentences({"type": 5, "mmsi": 211000000, "shipname": "ELSEWHERE", "ship_type": 70}, sequence=2)
    lines = [
        tagged(one, 1443650402 + at) for at, one in enumerate([static[0], POSITION, other[1], static[1], other[0]])
    ]
    lines.append(tagged(POSITION, 1443650500))
    events, aside, _ = read(written(tmp_path, "many.nmea", "\n".join(lines) + "\n"), "nmea")
    assert aside == []
    assert [(one["name"], one["type"]) for one in events] == [(None, None), ("GOLDEN GATE", "passenger")]


def test_sentences_that_cannot_be_read_are_counted_by_reason(tmp_path: Path) -> None:
    static = sentences({"type": 5, "mmsi": 366053209, "shipname": "GOLDEN GATE", "ship_type": 60})
    lines = [
        tagged(POSITION, 1443650402),
        tagged(POSITION.replace("*5C", "*5D"), 1443650403),
        "hello",
        POSITION,
        tagged(static[0], 1443650404),
        "# a comment",
    ]
    events, aside, _ = read(written(tmp_path, "bad.nmea", "\n".join(lines) + "\n"), "nmea")
    assert len(events) == 1
    assert [(row.row, row.reason) for row in aside] == [
        (2, "bad checksum"), (3, "not an AIS sentence"), (4, "no time"), (5, "a fragment without the others"),
    ]  # fmt: skip


def test_fragments_of_two_stations_do_not_mix(tmp_path: Path) -> None:
    """Both use the same number of a sequence, as stations do that count to nine, and one connection brings both."""
    own = sentences({"type": 5, "mmsi": 366053209, "shipname": "GOLDEN GATE", "ship_type": 60})
    other = sentences({"type": 5, "mmsi": 211000000, "shipname": "ELSEWHERE", "ship_type": 70})
    moves = sentences({"type": 1, "mmsi": 211000000, "lon": 1.0, "lat": 50.0})[0]
    positions = [tagged(one, 1443650500) for one in (POSITION, moves)]
    by_station = [rf"\s:{name},c:1443650402*00\{one}" for one, two in zip(own, other, strict=True)
                  for name, one in (("west", one), ("east", two))]  # fmt: skip
    by_group = [
        rf"\g:1-2-7,s:west,c:1443650402*00\{own[0]}", rf"\g:1-2-8,s:east,c:1443650402*00\{other[0]}",
        rf"\g:2-2-7*00\{own[1]}", rf"\g:2-2-8*00\{other[1]}",
    ]  # fmt: skip
    first_only = [rf"\s:west,c:1443650402*00\{own[0]}", own[1], rf"\s:east,c:1443650402*00\{other[0]}", other[1]]
    for lines in (by_station, by_group, first_only):
        events, aside, _ = read(written(tmp_path, "two.nmea", "\n".join(lines + positions) + "\n"), "nmea")
        assert aside == []
        assert [one["name"] for one in events] == ["GOLDEN GATE", "ELSEWHERE"]


@pytest.mark.parametrize("time", ["9999999999999999", "999999999999999"])
def test_a_sentence_with_a_time_that_no_calendar_has_goes_aside(time: str, tmp_path: Path) -> None:
    lines = [rf"\s:station,c:{time}*00\{POSITION}", tagged(POSITION, 1443650402)]
    events, aside, _ = read(written(tmp_path, "far.nmea", "\n".join(lines) + "\n"), "nmea")
    assert len(events) == 1
    assert [(row.row, row.reason) for row in aside] == [(1, "the time cannot be read")]


def told(text: str) -> str:
    """A `$PGHP` sentence with this time."""
    body = f"PGHP,1,{text},219,,2190047,1,5C"
    checksum = 0
    for letter in body.encode():
        checksum ^= letter
    return f"${body}*{checksum:02X}"


def test_danish_logs_tell_the_time_of_reception_on_the_line_before(tmp_path: Path) -> None:
    static = sentences({"type": 5, "mmsi": 366053209, "shipname": "GOLDEN GATE", "ship_type": 60})
    lines = [
        told("2008,5,9,0,0,0,10"), POSITION,
        told("2008,5,9,0,0,1,20"), static[0], told("2008,5,9,0,0,1,20"), static[1],
        told("2008,12,31,23,59,59,999"), POSITION,
    ]  # fmt: skip
    events, aside, _ = read(written(tmp_path, "danish.nmea", "\n".join(lines) + "\n"), "nmea")
    assert aside == []
    assert [(one["ts"], one["name"]) for one in events] == [
        (at("2008-05-09T00:00:00.010"), None), (at("2008-12-31T23:59:59.999"), "GOLDEN GATE")
    ]  # fmt: skip


def test_a_time_of_reception_is_that_of_one_sentence_and_is_believed_only_whole(tmp_path: Path) -> None:
    lines = [
        told("2008,5,9,0,0,0,10"), POSITION, POSITION,
        told("2008,13,9,0,0,0,10"), POSITION,
        told("2008,5,9,0,0,0,10")[:-2] + "00", POSITION,
    ]  # fmt: skip
    events, aside, _ = read(written(tmp_path, "danish.nmea", "\n".join(lines) + "\n"), "nmea")
    assert len(events) == 1
    assert [(row.row, row.reason) for row in aside] == [
        (3, "no time"), (4, "the time cannot be read"), (5, "no time"), (6, "bad checksum"), (7, "no time"),
    ]  # fmt: skip


FEED = {
    "header": {"gtfs_realtime_version": "2.0", "timestamp": 1425708030},
    "entity": [
        {
            "id": "a",
            "vehicle": {
                "trip": {"trip_id": "1391220", "route_id": "411", "direction_id": 0},
                "position": {"latitude": 30.25, "longitude": -97.75, "bearing": 90.0, "speed": 10.0},
                "timestamp": 1425708022,
                "vehicle": {"id": "8929", "label": "Bus 8929"},
                "current_stop_sequence": 3,
                "current_status": "STOPPED_AT",
            },
        },
        {"id": "b", "vehicle": {"position": {"latitude": 30.5, "longitude": -97.5}}},
        {"id": "c", "alert": {}},
    ],
}


def protobuf(feed: dict[str, Any]) -> bytes:
    json_format = pytest.importorskip("google.protobuf.json_format")
    realtime = pytest.importorskip("google.transit.gtfs_realtime_pb2")
    message = json_format.ParseDict(feed, realtime.FeedMessage())
    return bytes(message.SerializeToString())


@pytest.mark.parametrize("form", ["json", "pb"])
def test_a_feed_is_one_event_a_vehicle(form: str, tmp_path: Path) -> None:
    path = tmp_path / f"feed.{form}"
    path.write_bytes(json.dumps(FEED).encode() if form == "json" else protobuf(FEED))
    events, aside, _ = read(path, "gtfs")
    assert aside == []
    assert {name: value for name, value in events[0].items() if value is not None} == {
        "label": "Bus 8929", "current_stop_sequence": 3, "direction_id": 0,
        "vehicle_id": "8929", "ts": at("2015-03-07T06:00:22"), "lon": -97.75, "lat": 30.25, "speed": 36.0,
        "heading": 90.0, "route": "411", "trip": "1391220", "status": "stopped at",
    }  # fmt: skip
    assert (events[1]["vehicle_id"], events[1]["ts"]) == ("b", at("2015-03-07T06:00:30"))


def test_rows_of_vehicle_positions_are_read_in_kilometres_an_hour(tmp_path: Path) -> None:
    text = "vehicle_id,timestamp,lat,lon,speed,route_id\n007,1425708022,30.25,-97.75,10,411\n"
    events, _, _ = read(written(tmp_path, "rows.csv", text), "gtfs")
    assert (events[0]["vehicle_id"], events[0]["speed"], events[0]["route"]) == ("007", 36.0, "411")
    assert events[0]["ts"] == at("2015-03-07T06:00:22")


@pytest.mark.skipif(not SHARED.exists(), reason="../shared/data is not there")
@pytest.mark.parametrize(
    ("path", "provider", "n_events", "n_entities"),
    [
        ("noaa_ny_harbor/NYHarbor_2020_06_30_first_hour.csv", "noaa", 8_689, 295),
        ("solent/SolentAIS_20160112_130211.csv", "csv", 18_623, 91),
        ("noaa_ny_harbor/virginia_beach_2020_06_04_to_06.parquet", "csv", 39_822, 84),
        ("austin_buses/positions_all_days.parquet", "gtfs", 598_079, 484),
    ],
)
def test_real_files_are_read_whole(path: str, provider: str, n_events: int, n_entities: int) -> None:
    (file,) = find_provider_files([SHARED / path], provider)
    source = open_source(file, provider)
    schema = shared_schema([source])
    table = pa.Table.from_batches([batch for block in source.blocks() for batch in block.batches], schema)
    assert (len(table), len(table[0].unique())) == (n_events, n_entities)
    assert table["ts"].null_count == table["lon"].null_count == 0


@pytest.mark.skipif(not SHARED.exists(), reason="../shared/data is not there")
def test_courses_of_real_vessels_are_degrees_or_missing() -> None:
    (file,) = find_provider_files([SHARED / "noaa_ny_harbor/NYHarbor_2020_06_30_first_hour.csv"], "noaa")
    courses = [batch["course"] for block in open_source(file, "noaa").blocks() for batch in block.batches]
    bounds = pa.compute.min_max(pa.chunked_array(courses)).as_py()
    assert 0 <= bounds["min"] <= bounds["max"] <= 360


def test_the_same_times_are_read_from_parquet_in_any_type(tmp_path: Path) -> None:
    times = [datetime(2020, 1, 1, tzinfo=UTC)]
    for number, column in enumerate(
        [
            pa.array(times, pa.timestamp("ns", "UTC")),
            pa.array([1577836800000], pa.int64()),
            pa.array([1577836800.0], pa.float64()),
            pa.array(["2020-01-01T01:00:00+01:00"]),
            pa.array(["1577836800"]),
        ]
    ):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(pa.table({"mmsi": [1], "t": column}), path)
        assert read(path, "csv")[0] == [{"mmsi": 1, "ts": times[0]}]

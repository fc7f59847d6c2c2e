"""A URL becomes a Kafka topic that can be queried: where it is, how its clients are set up, what its partitions are.

    kafka://HOST:PORT[,HOST:PORT…]/TOPIC[?OPTION=VALUE&…]        kafka://TOPIC, on $KAFKA_BOOTSTRAP_SERVERS

Options with a dot in their name are settings of librdkafka (`security.protocol=SSL`); `config=FILE` reads such settings
from a file of `name=value` lines, so that a password need not be on a command line. Messages never show settings.
Settings that the stream's own promises rest on can only be given the value that they have.

Clients retry by themselves; a broker out of reach for `timeout` seconds becomes one message, with what the client's
threads said meanwhile: a request that a broker refuses looks like one without an answer.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from wayeb_py.clock import SYSTEM, Clock
from wayeb_py.errors import DataError, PassingError

if TYPE_CHECKING:
    from confluent_kafka import Consumer

SCHEME = "kafka://"
FORM = "kafka://HOST:PORT/TOPIC"
DEFAULT_SERVERS = "localhost:9092"
_PORT = 9092
_TOPIC = r"[A-Za-z0-9._-]{1,249}"
_SERVER = r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:\d{1,5})?"
_RETRY_S = 0.2

# The required value of each setting, and what would happen otherwise.
_OURS = {
    "auto.offset.reset": ("error", "?lost=skip goes on after what retention removed, and says so"),
    "enable.partition.eof": ("true", "it would not be known where a partition ends"),
    "enable.auto.commit": ("false", "the checkpoint has the offsets"),
    "isolation.level": ("read_committed", "messages of transactions that were given up would be read"),
    "enable.idempotence": ("true", "what is sent could be there twice, or in another order"),
    "acks": ("all", "what is sent could be lost"),
}
_ALIASES = {"metadata.broker.list": "bootstrap.servers", "request.required.acks": "acks"}
_SAME = {"1": "true", "t": "true", "0": "false", "f": "false", "-1": "all"}

Answer = TypeVar("Answer")

_said: dict[KafkaTopic, Any] = {}  # by topic: the last error of a client's thread since the last answer


@dataclass(frozen=True, slots=True)
class KafkaTopic:
    """A topic and how to get at it; can be pickled."""

    servers: str
    name: str
    timeout_s: float = 30.0
    lost: Literal["stop", "skip"] = "stop"  # what to do where retention was faster than the stream
    absent: Literal["stop", "missing"] = "stop"  # what to do with an attribute that no message of the sample has
    settings: tuple[tuple[str, str], ...] = ()
    clock: Clock = field(default=SYSTEM, compare=False, repr=False)

    @classmethod
    def parse(cls, url: str) -> KafkaTopic:
        """The topic that a URL names; raises DataError where it names none."""
        split = urlsplit(url)
        if not url.startswith(SCHEME):
            raise DataError(f"`{_shown(url)}` is no Kafka URL", hint=f"a topic is named {FORM}")
        servers, name = unquote(split.netloc), unquote(split.path.removeprefix("/"))
        if not split.path and ":" not in servers and "," not in servers:  # kafka://TOPIC
            servers, name = os.environ.get("KAFKA_BOOTSTRAP_SERVERS") or DEFAULT_SERVERS, servers
        if not name:
            raise DataError(f"`{_shown(url)}` names no topic", hint=f"a topic is named {FORM}")
        if not re.fullmatch(_TOPIC, name) or name in (".", ".."):
            raise DataError(f"`{name}` cannot be the name of a topic", hint="letters, digits, `.`, `_` and `-` can be")
        if split.fragment:
            raise DataError(f"`{_shown(url)}` has a `#`, which means nothing here", hint=f"a topic is named {FORM}")
        places = [_server(place, url) for place in servers.split(",")]
        options = _options(split.query, url)
        _refuse_unsafe(options["settings"], places, url)
        return cls(",".join(places), name, **options)

    @property
    def url(self) -> str:
        """The topic without settings, which may hold secrets."""
        return f"{SCHEME}{self.servers}/{self.name}"

    def config(self, **more: Any) -> dict[str, Any]:
        """The settings of a client; `more` has underscores where librdkafka has dots."""
        ours = {name.replace("_", "."): value for name, value in more.items()}
        fixed = {name: value for name, value in ours.items() if name in _OURS}
        # We report errors, once; the client's own threads stay silent.
        quiet = {"log_level": 0, "error_cb": self._heed}
        return {**ours, **dict(self.settings), **fixed, **quiet, "bootstrap.servers": self.servers}

    def _heed(self, error: Any) -> None:
        """Keeps the error that a client's thread reports; "all brokers are down" only follows from it."""
        from confluent_kafka import KafkaError

        if error.code() != KafkaError._ALL_BROKERS_DOWN and not (_is_refusal(_said.get(self)) and is_passing(error)):
            _said[self] = error

    def heard(self) -> None:
        """Notes that a broker has answered: earlier errors explain nothing that follows."""
        _said.pop(self, None)

    def consumer(self, **more: Any) -> Consumer:
        """A consumer that belongs to no group and commits nothing: a stream keeps its offsets itself."""
        from confluent_kafka import Consumer

        settings = {"group_id": "wayeb", "enable_auto_commit": False, "allow_auto_create_topics": False}
        with self.telling_faults():
            return Consumer(self.config(**settings, **more))

    def partitions(self, client: Any) -> list[int]:
        """The numbers of its partitions now; raises DataError if there is no such topic."""
        from confluent_kafka import KafkaError

        found = self.ask(lambda timeout_s: client.list_topics(self.name, timeout=timeout_s), client).topics[self.name]
        if found.error is not None:
            if found.error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
                raise self.missing(client)
            raise DataError(f"the topic cannot be read: {found.error.str()}", self.url)
        return sorted(found.partitions)

    def identity(self, client: Any) -> dict[str, str]:
        """The ids of the cluster and of the topic; without those that the brokers do not give."""
        from confluent_kafka import KafkaException, TopicCollection
        from confluent_kafka.admin import AdminClient

        cluster = self.ask(lambda timeout_s: client.list_topics(self.name, timeout=timeout_s), client).cluster_id
        found = {} if cluster is None else {f"the cluster of topic {self.name}": str(cluster)}
        admin = AdminClient(self.config())  # must live until it has answered
        try:
            described = admin.describe_topics(TopicCollection([self.name]))[self.name]
            topic_id = described.result(timeout=self.timeout_s).topic_id
        except (KafkaException, TimeoutError):  # older brokers do not know the request, and some refuse it
            return found
        return found if topic_id is None else found | {f"the id of topic {self.name}": str(topic_id)}

    def create(self, partitions: int, settings: Mapping[str, str] = {}) -> None:
        """Makes the topic, unless it is there, and returns when every partition of it can be used."""
        from confluent_kafka import KafkaError, KafkaException
        from confluent_kafka.admin import AdminClient
        from confluent_kafka.cimpl import NewTopic

        admin = AdminClient(self.config())
        wanted = NewTopic(self.name, num_partitions=partitions, config=dict(settings))
        try:
            admin.create_topics([wanted])[self.name].result(timeout=self.timeout_s)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise self.error(error.args[0]) from error
        deadline = self.clock.steady_s() + self.timeout_s
        while not self._is_ready(admin):
            if self.clock.steady_s() > deadline:
                raise DataError(f"the topic was made, and cannot be used after {self.timeout_s:g} s", self.url)
            self.clock.sleep(_RETRY_S / 4)

    def _is_ready(self, client: Any) -> bool:
        """Whether the brokers agree on who leads the topic's partitions."""
        found = self.ask(lambda timeout_s: client.list_topics(timeout=timeout_s), client).topics.get(self.name)
        return found is not None and found.error is None and all(p.leader >= 0 for p in found.partitions.values())

    def missing(self, client: Any) -> DataError:
        """The error for a missing topic, with the likeliest of the existing ones."""
        known = self.ask(lambda timeout_s: client.list_topics(timeout=timeout_s), client).topics
        folded = {name.casefold(): name for name in known}
        close = difflib.get_close_matches(self.name.casefold(), folded, n=1)
        hint = (
            f"did you mean `{folded[close[0]]}`?"
            if close
            else "create it first; `wayeb replay … --to` does so by itself"
        )
        return DataError(f"there is no topic `{self.name}`", self.url, hint=hint)

    def ask(self, question: Callable[[float], Answer], client: Any) -> Answer:
        """A broker's answer; tries again while none can be reached; raises DataError when that takes too long."""
        from confluent_kafka import KafkaException

        deadline = self.clock.steady_s() + self.timeout_s
        while True:
            try:
                answer = question(min(5.0, self.timeout_s))
                self.heard()
                return answer
            except KafkaException as error:
                cause = error.args[0]
                client.poll(0)  # otherwise the client's threads would not be heard
                if not is_passing(cause) or self.clock.steady_s() + _RETRY_S >= deadline:
                    raise self.error(cause) from error
                self.clock.sleep(_RETRY_S)

    def error(self, error: Any) -> DataError:
        """A client's error as a message."""
        if is_passing(error):
            return self.unreachable(error.str())
        return DataError(f"Kafka refuses: {error.str()}", self.url)

    def unreachable(self, why: str) -> DataError:
        said = _said.get(self)
        if said is not None and _is_refusal(said):
            return DataError(
                f"no Kafka broker has let us in for {self.timeout_s:g} s: {said.str()}",
                self.url,
                hint="look at security.protocol, sasl.… and ssl.… in the URL or in its config file",
            )
        return PassingError(
            f"no Kafka broker has answered for {self.timeout_s:g} s: {why if said is None else said.str()}",
            self.url,
            hint=f"is {self.servers} right, and running? ?timeout=SECONDS waits longer",
        )

    @contextmanager
    def telling_faults(self) -> Iterator[None]:
        """Makes a client's exception a message."""
        from confluent_kafka import KafkaException

        try:
            yield
        except KafkaException as error:
            raise self.error(error.args[0]) from error


def without_servers(name: str) -> str:
    """The name of a log without the brokers' addresses, which may change while the cluster stays the same."""
    return re.sub(rf"{SCHEME}[^/ ]+/", SCHEME, name)


def is_passing(error: Any) -> bool:
    """Whether an error is of a kind that goes away when a broker comes back."""
    from confluent_kafka import KafkaError

    passing = (
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._RESOLVE,
        KafkaError._WAIT_COORD,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
    )
    return error.code() in passing or (error.retriable() and not error.fatal())


def _is_refusal(error: Any) -> bool:
    """Whether an error says that a broker is there, and refuses us or is not what we want."""
    from confluent_kafka import KafkaError

    refusals = (KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError.SASL_AUTHENTICATION_FAILED)
    return error is not None and error.code() in refusals


def _refuse_unsafe(settings: tuple[tuple[str, str], ...], places: list[str], url: str) -> None:
    """Raises DataError if a setting would break a promise of the stream."""
    for name, value in settings:
        known = _ALIASES.get(name, name)
        if known == "bootstrap.servers":
            if {place.strip() for place in value.split(",")} != set(places):
                raise DataError(
                    f"`{name}` names other brokers than `{_shown(url)}`", hint="name brokers in the URL, and only there"
                )
        elif known in _OURS and _SAME.get(value.lower(), value.lower()) != _OURS[known][0]:
            needed, why = _OURS[known]
            raise DataError(f"`{name}` has to be {needed} for `{_shown(url)}`: {why}", hint="leave this setting out")


def _shown(url: str) -> str:
    return url.partition("?")[0]


def _server(place: str, url: str) -> str:
    match = re.fullmatch(_SERVER, place)
    if match is None or (match[2] and not 0 < int(match[2][1:]) < 65536):
        raise DataError(f"`{place}` in `{_shown(url)}` is no broker's address", hint=f"a topic is named {FORM}")
    return place if match[2] else f"{place}:{_PORT}"


def _options(query: str, url: str) -> dict[str, Any]:
    options: dict[str, Any] = {}
    settings: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name == "timeout":
            options["timeout_s"] = _seconds(value)
        elif name in ("lost", "absent"):
            choices = {"lost": ("stop", "skip"), "absent": ("stop", "missing")}[name]
            if value not in choices:
                raise DataError(f"`{name}={value}` in `{_shown(url)}`: it is {' or '.join(choices)}")
            options[name] = value
        elif name == "config":
            settings |= _read_settings(value)
        elif "." in name:
            settings[name] = value
        else:
            raise DataError(
                f"`{_shown(url)}` has an option `{name}`, which is not known",
                hint="timeout, lost, absent and config are; a setting of librdkafka has a dot in its name",
            )
    return options | {"settings": tuple(settings.items())}


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e6:
        raise DataError(f"`timeout={text}` is no number of seconds")
    return seconds


def _read_settings(path: str) -> dict[str, str]:
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise DataError(f"settings cannot be read: {error.strerror}", path) from error
    settings = {}
    for number, line in enumerate(lines, start=1):
        if line.strip() and not line.lstrip().startswith(("#", "!")):
            name, equals, value = line.partition("=")
            if not equals:
                raise DataError("a setting is written name=value", path, number)
            settings[name.strip()] = value.strip()
    return settings

-- Patterns beyond letters in a row, with window functions that DuckDB and Spark both have. There is no rule that leads
-- from the pattern to these queries: each was thought out from what its last event must have behind it.

-- An end is slow, and the last event that was not slow is fast and itself ended such a group.
-- lines: StopAndGo
WITH letters AS (
    SELECT vehicle_id, ts, coalesce(speed > 50, FALSE) AS fast, coalesce(speed < 20, FALSE) AS slow,
        row_number() OVER (PARTITION BY vehicle_id ORDER BY ts) AS seq
    FROM events
), last_of AS (
    SELECT *, lag(slow) OVER (PARTITION BY vehicle_id ORDER BY ts) AS after_slow,
        max(CASE WHEN NOT slow THEN seq END) OVER w AS not_slow,
        max(CASE WHEN fast THEN seq END) OVER w AS was_fast
    FROM letters
    WINDOW w AS (PARTITION BY vehicle_id ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
), again AS (
    SELECT *, max(CASE WHEN fast AND after_slow AND was_fast = not_slow THEN seq END)
        OVER (PARTITION BY vehicle_id ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS second
    FROM last_of
)
SELECT 'StopAndGo' AS pattern, vehicle_id AS entity, ts FROM again WHERE slow AND second = not_slow

-- What must not be there is noted where it ends, if it began after the last long silence.
-- lines: CalmTrip
WITH timed AS (
    SELECT vehicle_id, ts, ignition, coalesce(speed > 50, FALSE) AS fast, coalesce(speed < 20, FALSE) AS slow,
        row_number() OVER w AS seq, lag(ts) OVER w AS ts1
    FROM events WINDOW w AS (PARTITION BY vehicle_id ORDER BY ts)
), letters AS (
    SELECT *, coalesce(NOT ignition AND ts - ts1 > INTERVAL 30 MINUTE, FALSE) AS off FROM timed
), last_of AS (
    SELECT *, lag(slow) OVER (PARTITION BY vehicle_id ORDER BY ts) AS after_slow,
        max(CASE WHEN NOT slow THEN seq END) OVER w AS not_slow,
        max(CASE WHEN fast THEN seq END) OVER w AS was_fast,
        max(CASE WHEN off THEN seq END) OVER w AS was_off
    FROM letters
    WINDOW w AS (PARTITION BY vehicle_id ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
), judged AS (
    SELECT *, max(CASE WHEN fast AND after_slow AND was_fast = not_slow AND was_fast > was_off THEN seq END)
        OVER (PARTITION BY vehicle_id ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS wild
    FROM last_of
)
SELECT 'CalmTrip' AS pattern, vehicle_id AS entity, ts FROM judged
WHERE off AND seq - was_off > 3 AND coalesce(wild, 0) <= was_off

-- The latest start is enough: it is noted at the first fast event after it, and must be younger than the last tow.
-- lines: Towed
WITH letters AS (
    SELECT vehicle_id, ts, status = 'parked' AS parked, coalesce(speed > 50, FALSE) AS fast,
        coalesce(speed < 5 AND travelled > 60, FALSE) AS towed,
        row_number() OVER (PARTITION BY vehicle_id ORDER BY ts) AS seq
    FROM events
), last_of AS (
    SELECT *,
        max(CASE WHEN parked THEN seq END) OVER w AS was_parked,
        max(CASE WHEN parked THEN ts END) OVER w AS parked_ts,
        max(CASE WHEN fast THEN seq END) OVER w AS was_fast,
        max(CASE WHEN towed THEN seq END) OVER w AS was_towed
    FROM letters
    WINDOW w AS (PARTITION BY vehicle_id ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
), departed AS (
    SELECT *, fast AND was_parked >= coalesce(was_fast, 0) AS departs FROM last_of
), anchored AS (
    SELECT *, max(CASE WHEN departs THEN seq END) OVER w AS departure,
        max(CASE WHEN departs THEN parked_ts END) OVER w AS from_ts
    FROM departed
    WINDOW w AS (PARTITION BY vehicle_id ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
)
SELECT 'Towed' AS pattern, vehicle_id AS entity, ts FROM anchored
WHERE towed AND departure > coalesce(was_towed, 0) AND ts - from_ts <= INTERVAL 2 HOUR
-- lines: end

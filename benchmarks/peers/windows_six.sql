-- The six patterns in DuckDB's SQL. All letters of an event are bits of one small number, so that there is one lag for
-- each step back; one sort by vehicle and time serves every window; only rows with a detection are looked at six times.
-- lines: six
WITH letters AS (
    SELECT vehicle_id, ts, NOT ignition AS stopped, status = 'moving' AS moving,
        (CASE WHEN status = 'parked' THEN 1 ELSE 0 END
        + CASE WHEN status = 'idle' THEN 2 ELSE 0 END
        + CASE WHEN status = 'moving' THEN 4 ELSE 0 END
        + CASE WHEN speed > 50 THEN 8 ELSE 0 END
        + CASE WHEN speed = 0 THEN 16 ELSE 0 END
        + CASE WHEN status = 'moving' AND speed = 0 AND travelled > 30 THEN 32 ELSE 0 END
        + CASE WHEN accelerating AND satellites = 0 AND travelled > 30 THEN 64 ELSE 0 END)::UTINYINT AS bits
    FROM events
), steps AS (
    SELECT vehicle_id, ts, stopped, moving, row_number() OVER w AS seq, lag(ts) OVER w AS ts1,
        bits AS b0, lag(bits, 1) OVER w AS b1, lag(bits, 2) OVER w AS b2, lag(bits, 3) OVER w AS b3
    FROM letters WINDOW w AS (PARTITION BY vehicle_id ORDER BY ts)
), silent AS (
    SELECT *, stopped AND ts - ts1 > INTERVAL 30 MINUTE AS off FROM steps
), anchored AS (
    SELECT *,
        max(CASE WHEN off THEN seq END) OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING) AS from_seq,
        max(CASE WHEN NOT moving THEN seq END) OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS stood
    FROM silent WINDOW w AS (PARTITION BY vehicle_id ORDER BY ts)
), marked AS (
    SELECT vehicle_id, ts,
        off AND coalesce(stood, 0) <= from_seq AS route,
        b3 & 1 > 0 AND b2 & 4 > 0 AND b1 & 1 > 0 AND b0 & 4 > 0 AS parked_moving,
        b3 & 2 > 0 AND b2 & 1 > 0 AND b1 & 2 > 0 AND b0 & 1 > 0 AS idle_parked,
        b3 & 8 > 0 AND b2 & 16 > 0 AND b1 & 8 > 0 AND b0 & 16 > 0 AS speeds,
        b2 & 32 > 0 AND b1 & 32 > 0 AND b0 & 32 > 0 AS zero_speed,
        b2 & 64 > 0 AND b1 & 64 > 0 AND b0 & 64 > 0 AS bad_signal
    FROM anchored
), hits AS MATERIALIZED (
    SELECT * FROM marked WHERE route OR parked_moving OR idle_parked OR speeds OR zero_speed OR bad_signal
)
SELECT 'Route' AS pattern, vehicle_id AS entity, ts FROM hits WHERE route
UNION ALL SELECT 'ParkedMovingSwing', vehicle_id, ts FROM hits WHERE parked_moving
UNION ALL SELECT 'IdleParkedSwing', vehicle_id, ts FROM hits WHERE idle_parked
UNION ALL SELECT 'SpeedSwing', vehicle_id, ts FROM hits WHERE speeds
UNION ALL SELECT 'MovingWithZeroSpeed', vehicle_id, ts FROM hits WHERE zero_speed
UNION ALL SELECT 'MovingWithBadSignal', vehicle_id, ts FROM hits WHERE bad_signal
-- lines: end

-- The six patterns in standard SQL, as DuckDB's main branch reads it. Each start gives one match, as in Flink.
-- lines: Route
SELECT 'Route' AS pattern, vehicle_id AS entity, ts FROM events MATCH_RECOGNIZE (
  PARTITION BY vehicle_id ORDER BY ts MEASURES z.ts AS ts
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (a m+ z)
  DEFINE a AS NOT a.ignition AND a.ts - PREV(a.ts) > INTERVAL 30 MINUTE, m AS m.status = 'moving',
    z AS NOT z.ignition AND z.ts - PREV(z.ts) > INTERVAL 30 MINUTE)
-- lines: ParkedMovingSwing
SELECT 'ParkedMovingSwing' AS pattern, vehicle_id AS entity, ts FROM events MATCH_RECOGNIZE (
  PARTITION BY vehicle_id ORDER BY ts MEASURES z.ts AS ts
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (a b c z)
  DEFINE a AS a.status = 'parked', b AS b.status = 'moving', c AS c.status = 'parked', z AS z.status = 'moving')
-- lines: IdleParkedSwing
SELECT 'IdleParkedSwing' AS pattern, vehicle_id AS entity, ts FROM events MATCH_RECOGNIZE (
  PARTITION BY vehicle_id ORDER BY ts MEASURES z.ts AS ts
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (a b c z)
  DEFINE a AS a.status = 'idle', b AS b.status = 'parked', c AS c.status = 'idle', z AS z.status = 'parked')
-- lines: SpeedSwing
SELECT 'SpeedSwing' AS pattern, vehicle_id AS entity, ts FROM events MATCH_RECOGNIZE (
  PARTITION BY vehicle_id ORDER BY ts MEASURES z.ts AS ts
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (a b c z)
  DEFINE a AS a.speed > 50, b AS b.speed = 0, c AS c.speed > 50, z AS z.speed = 0)
-- lines: MovingWithZeroSpeed
SELECT 'MovingWithZeroSpeed' AS pattern, vehicle_id AS entity, ts FROM events MATCH_RECOGNIZE (
  PARTITION BY vehicle_id ORDER BY ts MEASURES LAST(z.ts) AS ts
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (z{3})
  DEFINE z AS z.status = 'moving' AND z.speed = 0 AND z.travelled > 30)
-- lines: MovingWithBadSignal
SELECT 'MovingWithBadSignal' AS pattern, vehicle_id AS entity, ts FROM events MATCH_RECOGNIZE (
  PARTITION BY vehicle_id ORDER BY ts MEASURES LAST(z.ts) AS ts
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (z{3})
  DEFINE z AS z.accelerating AND z.satellites = 0 AND z.travelled > 30)
-- lines: MeasuredRoute
SELECT 'MeasuredRoute ' || CAST(CAST(1000 * epoch(took) AS BIGINT) AS VARCHAR) || ' ' || CAST(n AS VARCHAR) AS pattern, vehicle_id AS entity, ts FROM events MATCH_RECOGNIZE (
  PARTITION BY vehicle_id ORDER BY ts MEASURES z.ts AS ts, z.ts - a.ts AS took, COUNT(m.ts) + 2 AS n
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (a m+ z)
  DEFINE a AS NOT a.ignition AND a.ts - PREV(a.ts) > INTERVAL 30 MINUTE, m AS m.status = 'moving',
    z AS NOT z.ignition AND z.ts - PREV(z.ts) > INTERVAL 30 MINUTE)
-- lines: MeasuredParkedMovingSwing
SELECT 'MeasuredParkedMovingSwing ' || CAST(CAST(1000 * epoch(took) AS BIGINT) AS VARCHAR) || ' ' || CAST(n AS VARCHAR) AS pattern, vehicle_id AS entity, ts FROM events MATCH_RECOGNIZE (
  PARTITION BY vehicle_id ORDER BY ts MEASURES z.ts AS ts, z.ts - a.ts AS took, 4 AS n
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (a b c z)
  DEFINE a AS a.status = 'parked', b AS b.status = 'moving', c AS c.status = 'parked', z AS z.status = 'moving')
-- lines: MeasuredIdleParkedSwing
SELECT 'MeasuredIdleParkedSwing ' || CAST(CAST(1000 * epoch(took) AS BIGINT) AS VARCHAR) || ' ' || CAST(n AS VARCHAR) AS pattern, vehicle_id AS entity, ts FROM events MATCH_RECOGNIZE (
  PARTITION BY vehicle_id ORDER BY ts MEASURES z.ts AS ts, z.ts - a.ts AS took, 4 AS n
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (a b c z)
  DEFINE a AS a.status = 'idle', b AS b.status = 'parked', c AS c.status = 'idle', z AS z.status = 'parked')
-- lines: MeasuredSpeedSwing
SELECT 'MeasuredSpeedSwing ' || CAST(CAST(1000 * epoch(took) AS BIGINT) AS VARCHAR) || ' ' || CAST(n AS VARCHAR) || ' ' || CAST(CAST(FLOOR(top) AS BIGINT) AS VARCHAR) AS pattern, vehicle_id AS entity, ts FROM events MATCH_RECOGNIZE (
  PARTITION BY vehicle_id ORDER BY ts MEASURES z.ts AS ts, z.ts - a.ts AS took, 4 AS n, GREATEST(a.speed, c.speed) AS top
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (a b c z)
  DEFINE a AS a.speed > 50, b AS b.speed = 0, c AS c.speed > 50, z AS z.speed = 0)
-- lines: MeasuredMovingWithZeroSpeed
SELECT 'MeasuredMovingWithZeroSpeed ' || CAST(CAST(1000 * epoch(took) AS BIGINT) AS VARCHAR) || ' ' || CAST(n AS VARCHAR) AS pattern, vehicle_id AS entity, ts FROM events MATCH_RECOGNIZE (
  PARTITION BY vehicle_id ORDER BY ts MEASURES z.ts AS ts, z.ts - a.ts AS took, 3 AS n
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (a b z)
  DEFINE a AS a.status = 'moving' AND a.speed = 0 AND a.travelled > 30,
    b AS b.status = 'moving' AND b.speed = 0 AND b.travelled > 30,
    z AS z.status = 'moving' AND z.speed = 0 AND z.travelled > 30)
-- lines: MeasuredMovingWithBadSignal
SELECT 'MeasuredMovingWithBadSignal ' || CAST(CAST(1000 * epoch(took) AS BIGINT) AS VARCHAR) || ' ' || CAST(n AS VARCHAR) AS pattern, vehicle_id AS entity, ts FROM events MATCH_RECOGNIZE (
  PARTITION BY vehicle_id ORDER BY ts MEASURES z.ts AS ts, z.ts - a.ts AS took, 3 AS n
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (a b z)
  DEFINE a AS a.accelerating AND a.satellites = 0 AND a.travelled > 30,
    b AS b.accelerating AND b.satellites = 0 AND b.travelled > 30,
    z AS z.accelerating AND z.satellites = 0 AND z.travelled > 30)
-- lines: NamedRoute
SELECT 'NamedRoute' AS pattern, vehicle_id AS entity, ts FROM events MATCH_RECOGNIZE (
  PARTITION BY vehicle_id ORDER BY ts MEASURES z.ts AS ts
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (a m+ z)
  DEFINE a AS NOT a.ignition AND a.ts - PREV(a.ts) > INTERVAL 30 MINUTE, m AS m.status = 'moving',
    z AS NOT z.ignition AND z.ts - PREV(z.ts) > INTERVAL 30 MINUTE AND z.ts - a.ts < INTERVAL 6 HOUR)
-- lines: NamedParkedMovingSwing
SELECT 'NamedParkedMovingSwing' AS pattern, vehicle_id AS entity, ts FROM events MATCH_RECOGNIZE (
  PARTITION BY vehicle_id ORDER BY ts MEASURES z.ts AS ts
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (a b c z)
  DEFINE a AS a.status = 'parked', b AS b.status = 'moving', c AS c.status = 'parked', z AS z.status = 'moving' AND z.ts - a.ts < INTERVAL 20 MINUTE)
-- lines: NamedIdleParkedSwing
SELECT 'NamedIdleParkedSwing' AS pattern, vehicle_id AS entity, ts FROM events MATCH_RECOGNIZE (
  PARTITION BY vehicle_id ORDER BY ts MEASURES z.ts AS ts
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (a b c z)
  DEFINE a AS a.status = 'idle', b AS b.status = 'parked', c AS c.status = 'idle', z AS z.status = 'parked' AND z.ts - a.ts < INTERVAL 20 MINUTE)
-- lines: NamedSpeedSwing
SELECT 'NamedSpeedSwing' AS pattern, vehicle_id AS entity, ts FROM events MATCH_RECOGNIZE (
  PARTITION BY vehicle_id ORDER BY ts MEASURES z.ts AS ts
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (a b c z)
  DEFINE a AS a.speed > 50, b AS b.speed = 0, c AS c.speed > 50 AND c.speed > a.speed, z AS z.speed = 0 AND z.ts - a.ts <= INTERVAL 1 HOUR)
-- lines: NamedMovingWithZeroSpeed
SELECT 'NamedMovingWithZeroSpeed' AS pattern, vehicle_id AS entity, ts FROM events MATCH_RECOGNIZE (
  PARTITION BY vehicle_id ORDER BY ts MEASURES z.ts AS ts
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (a b z)
  DEFINE a AS a.status = 'moving' AND a.speed = 0 AND a.travelled > 30,
    b AS b.status = 'moving' AND b.speed = 0 AND b.travelled > 30,
    z AS z.status = 'moving' AND z.speed = 0 AND z.travelled > 30 AND z.travelled > a.travelled AND z.ts - a.ts <= INTERVAL 1 HOUR)
-- lines: NamedMovingWithBadSignal
SELECT 'NamedMovingWithBadSignal' AS pattern, vehicle_id AS entity, ts FROM events MATCH_RECOGNIZE (
  PARTITION BY vehicle_id ORDER BY ts MEASURES z.ts AS ts
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (a b z)
  DEFINE a AS a.accelerating AND a.satellites = 0 AND a.travelled > 30,
    b AS b.accelerating AND b.satellites = 0 AND b.travelled > 30,
    z AS z.accelerating AND z.satellites = 0 AND z.travelled > 30 AND z.travelled > a.travelled AND z.ts - a.ts <= INTERVAL 1 HOUR)
-- lines: end

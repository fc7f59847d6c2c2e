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
-- lines: end

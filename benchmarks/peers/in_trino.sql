-- The patterns in standard SQL, as Trino reads it. Each start gives one match; where a start may have several ends, rows
-- are in the opposite order, so that each end is a start: what came before a row is the next one there.
-- lines: Route
SELECT 'Route' AS detected, vehicle_id AS entity, ts FROM events MATCH_RECOGNIZE (
  PARTITION BY vehicle_id ORDER BY ts DESC MEASURES z.ts AS ts
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (z m+? a)
  DEFINE a AS NOT a.ignition AND a.ts - NEXT(a.ts) > 1800000, m AS m.status = 'moving',
    z AS NOT z.ignition AND z.ts - NEXT(z.ts) > 1800000)
-- lines: ParkedMovingSwing
SELECT 'ParkedMovingSwing' AS detected, vehicle_id AS entity, ts FROM events MATCH_RECOGNIZE (
  PARTITION BY vehicle_id ORDER BY ts MEASURES z.ts AS ts
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (a b c z)
  DEFINE a AS a.status = 'parked', b AS b.status = 'moving', c AS c.status = 'parked', z AS z.status = 'moving')
-- lines: IdleParkedSwing
SELECT 'IdleParkedSwing' AS detected, vehicle_id AS entity, ts FROM events MATCH_RECOGNIZE (
  PARTITION BY vehicle_id ORDER BY ts MEASURES z.ts AS ts
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (a b c z)
  DEFINE a AS a.status = 'idle', b AS b.status = 'parked', c AS c.status = 'idle', z AS z.status = 'parked')
-- lines: SpeedSwing
SELECT 'SpeedSwing' AS detected, vehicle_id AS entity, ts FROM events MATCH_RECOGNIZE (
  PARTITION BY vehicle_id ORDER BY ts MEASURES z.ts AS ts
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (a b c z)
  DEFINE a AS a.speed > 50, b AS b.speed = 0, c AS c.speed > 50, z AS z.speed = 0)
-- lines: MovingWithZeroSpeed
SELECT 'MovingWithZeroSpeed' AS detected, vehicle_id AS entity, ts FROM events MATCH_RECOGNIZE (
  PARTITION BY vehicle_id ORDER BY ts MEASURES LAST(z.ts) AS ts
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (z{3})
  DEFINE z AS z.status = 'moving' AND z.speed = 0 AND z.travelled > 30)
-- lines: MovingWithBadSignal
SELECT 'MovingWithBadSignal' AS detected, vehicle_id AS entity, ts FROM events MATCH_RECOGNIZE (
  PARTITION BY vehicle_id ORDER BY ts MEASURES LAST(z.ts) AS ts
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (z{3})
  DEFINE z AS z.accelerating AND z.satellites = 0 AND z.travelled > 30)
-- lines: StopAndGo
SELECT 'StopAndGo' AS detected, vehicle_id AS entity, ts FROM events MATCH_RECOGNIZE (
  PARTITION BY vehicle_id ORDER BY ts DESC MEASURES FIRST(ts) AS ts
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (s+ f s+ f)
  DEFINE f AS f.speed > 50, s AS s.speed < 20)
-- lines: Legs
SELECT 'Legs' AS detected, vehicle_id AS entity, ts FROM events MATCH_RECOGNIZE (
  PARTITION BY vehicle_id ORDER BY ts MEASURES z.ts AS ts
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (a (m i? m | i i i)+ z)
  DEFINE a AS a.status = 'parked', m AS m.status = 'moving', i AS i.status = 'idle', z AS z.status = 'parked')
-- lines: CalmTrip
SELECT 'CalmTrip' AS detected, vehicle_id AS entity, ts FROM events MATCH_RECOGNIZE (
  PARTITION BY vehicle_id ORDER BY ts MEASURES z.ts AS ts
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (
    a ((y y n | y n s | (n | s) s s) (s | n | f+ s* n)* (f+ s*)?
      | ((n | s) y f | y (n | f) f) f* s* (n (s | n | f+ s* n)* (f+ s*)?)?
      | (y f s | f s s) s* (n (s | n | f+ s* n)* (f+ s*)?)?) z)
  DEFINE a AS NOT a.ignition AND a.ts - PREV(a.ts) > 1800000,
    y AS y.ignition OR y.ts - PREV(y.ts) <= 1800000,
    f AS (f.ignition OR f.ts - PREV(f.ts) <= 1800000) AND f.speed > 50,
    s AS (s.ignition OR s.ts - PREV(s.ts) <= 1800000) AND s.speed < 20,
    n AS (n.ignition OR n.ts - PREV(n.ts) <= 1800000) AND (n.speed IS NULL OR n.speed BETWEEN 20 AND 50),
    z AS NOT z.ignition AND z.ts - PREV(z.ts) > 1800000)
-- lines: Towed
SELECT 'Towed' AS detected, vehicle_id AS entity, ts FROM events MATCH_RECOGNIZE (
  PARTITION BY vehicle_id ORDER BY ts MEASURES z.ts AS ts
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (p u* f v* z)
  DEFINE p AS p.status = 'parked', u AS (u.speed IS NULL OR u.speed <= 50) AND u.ts - p.ts <= 7200000, f AS f.speed > 50,
    v AS (v.speed IS NULL OR v.speed >= 5 OR v.travelled <= 60) AND v.ts - p.ts <= 7200000,
    z AS z.speed < 5 AND z.travelled > 60 AND z.ts - p.ts <= 7200000)
-- lines: MeasuredRoute
SELECT 'MeasuredRoute ' || CAST(took AS VARCHAR) || ' ' || CAST(n AS VARCHAR) AS detected, vehicle_id AS entity, ts FROM events MATCH_RECOGNIZE (
  PARTITION BY vehicle_id ORDER BY ts DESC MEASURES z.ts AS ts, z.ts - a.ts AS took, COUNT(m.ts) + 2 AS n
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (z m+? a)
  DEFINE a AS NOT a.ignition AND a.ts - NEXT(a.ts) > 1800000, m AS m.status = 'moving',
    z AS NOT z.ignition AND z.ts - NEXT(z.ts) > 1800000)
-- lines: MeasuredParkedMovingSwing
SELECT 'MeasuredParkedMovingSwing ' || CAST(took AS VARCHAR) || ' ' || CAST(n AS VARCHAR) AS detected, vehicle_id AS entity, ts FROM events MATCH_RECOGNIZE (
  PARTITION BY vehicle_id ORDER BY ts MEASURES z.ts AS ts, z.ts - a.ts AS took, 4 AS n
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (a b c z)
  DEFINE a AS a.status = 'parked', b AS b.status = 'moving', c AS c.status = 'parked', z AS z.status = 'moving')
-- lines: MeasuredIdleParkedSwing
SELECT 'MeasuredIdleParkedSwing ' || CAST(took AS VARCHAR) || ' ' || CAST(n AS VARCHAR) AS detected, vehicle_id AS entity, ts FROM events MATCH_RECOGNIZE (
  PARTITION BY vehicle_id ORDER BY ts MEASURES z.ts AS ts, z.ts - a.ts AS took, 4 AS n
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (a b c z)
  DEFINE a AS a.status = 'idle', b AS b.status = 'parked', c AS c.status = 'idle', z AS z.status = 'parked')
-- lines: MeasuredSpeedSwing
SELECT 'MeasuredSpeedSwing ' || CAST(took AS VARCHAR) || ' ' || CAST(n AS VARCHAR) || ' ' || CAST(CAST(FLOOR(top) AS BIGINT) AS VARCHAR) AS detected, vehicle_id AS entity, ts FROM events MATCH_RECOGNIZE (
  PARTITION BY vehicle_id ORDER BY ts MEASURES z.ts AS ts, z.ts - a.ts AS took, 4 AS n, GREATEST(a.speed, c.speed) AS top
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (a b c z)
  DEFINE a AS a.speed > 50, b AS b.speed = 0, c AS c.speed > 50, z AS z.speed = 0)
-- lines: MeasuredMovingWithZeroSpeed
SELECT 'MeasuredMovingWithZeroSpeed ' || CAST(took AS VARCHAR) || ' ' || CAST(n AS VARCHAR) AS detected, vehicle_id AS entity, ts FROM events MATCH_RECOGNIZE (
  PARTITION BY vehicle_id ORDER BY ts MEASURES z.ts AS ts, z.ts - a.ts AS took, 3 AS n
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (a b z)
  DEFINE a AS a.status = 'moving' AND a.speed = 0 AND a.travelled > 30,
    b AS b.status = 'moving' AND b.speed = 0 AND b.travelled > 30,
    z AS z.status = 'moving' AND z.speed = 0 AND z.travelled > 30)
-- lines: MeasuredMovingWithBadSignal
SELECT 'MeasuredMovingWithBadSignal ' || CAST(took AS VARCHAR) || ' ' || CAST(n AS VARCHAR) AS detected, vehicle_id AS entity, ts FROM events MATCH_RECOGNIZE (
  PARTITION BY vehicle_id ORDER BY ts MEASURES z.ts AS ts, z.ts - a.ts AS took, 3 AS n
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (a b z)
  DEFINE a AS a.accelerating AND a.satellites = 0 AND a.travelled > 30,
    b AS b.accelerating AND b.satellites = 0 AND b.travelled > 30,
    z AS z.accelerating AND z.satellites = 0 AND z.travelled > 30)
-- lines: NamedRoute
SELECT 'NamedRoute' AS detected, vehicle_id AS entity, ts FROM events MATCH_RECOGNIZE (
  PARTITION BY vehicle_id ORDER BY ts DESC MEASURES z.ts AS ts
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (z m+? a)
  DEFINE a AS NOT a.ignition AND a.ts - NEXT(a.ts) > 1800000 AND z.ts - a.ts < 21600000, m AS m.status = 'moving',
    z AS NOT z.ignition AND z.ts - NEXT(z.ts) > 1800000)
-- lines: NamedParkedMovingSwing
SELECT 'NamedParkedMovingSwing' AS detected, vehicle_id AS entity, ts FROM events MATCH_RECOGNIZE (
  PARTITION BY vehicle_id ORDER BY ts MEASURES z.ts AS ts
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (a b c z)
  DEFINE a AS a.status = 'parked', b AS b.status = 'moving', c AS c.status = 'parked', z AS z.status = 'moving' AND z.ts - a.ts < 1200000)
-- lines: NamedIdleParkedSwing
SELECT 'NamedIdleParkedSwing' AS detected, vehicle_id AS entity, ts FROM events MATCH_RECOGNIZE (
  PARTITION BY vehicle_id ORDER BY ts MEASURES z.ts AS ts
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (a b c z)
  DEFINE a AS a.status = 'idle', b AS b.status = 'parked', c AS c.status = 'idle', z AS z.status = 'parked' AND z.ts - a.ts < 1200000)
-- lines: NamedSpeedSwing
SELECT 'NamedSpeedSwing' AS detected, vehicle_id AS entity, ts FROM events MATCH_RECOGNIZE (
  PARTITION BY vehicle_id ORDER BY ts MEASURES z.ts AS ts
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (a b c z)
  DEFINE a AS a.speed > 50, b AS b.speed = 0, c AS c.speed > 50 AND c.speed > a.speed, z AS z.speed = 0 AND z.ts - a.ts <= 3600000)
-- lines: NamedMovingWithZeroSpeed
SELECT 'NamedMovingWithZeroSpeed' AS detected, vehicle_id AS entity, ts FROM events MATCH_RECOGNIZE (
  PARTITION BY vehicle_id ORDER BY ts MEASURES z.ts AS ts
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (a b z)
  DEFINE a AS a.status = 'moving' AND a.speed = 0 AND a.travelled > 30,
    b AS b.status = 'moving' AND b.speed = 0 AND b.travelled > 30,
    z AS z.status = 'moving' AND z.speed = 0 AND z.travelled > 30 AND z.travelled > a.travelled AND z.ts - a.ts <= 3600000)
-- lines: NamedMovingWithBadSignal
SELECT 'NamedMovingWithBadSignal' AS detected, vehicle_id AS entity, ts FROM events MATCH_RECOGNIZE (
  PARTITION BY vehicle_id ORDER BY ts MEASURES z.ts AS ts
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (a b z)
  DEFINE a AS a.accelerating AND a.satellites = 0 AND a.travelled > 30,
    b AS b.accelerating AND b.satellites = 0 AND b.travelled > 30,
    z AS z.accelerating AND z.satellites = 0 AND z.travelled > 30 AND z.travelled > a.travelled AND z.ts - a.ts <= 3600000)
-- lines: end

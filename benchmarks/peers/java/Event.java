/** A message of the fleet, with the getters that engines of the JVM like to see; what is missing is null. */
public final class Event {
    public long vehicle;
    public long ts;
    public String status;
    public boolean ignition;
    public Double speed;
    public double travelled;
    public Integer satellites;
    public boolean accelerating;

    public Event() {
    }

    /** One line of the CSV file: vehicle_id, ts, status, ignition, speed, travelled, satellites, accelerating. */
    static Event parse(String line) {
        String[] fields = line.split(",", -1);
        Event event = new Event();
        event.vehicle = Long.parseLong(fields[0]);
        event.ts = Long.parseLong(fields[1]);
        event.status = fields[2].intern();
        event.ignition = Boolean.parseBoolean(fields[3]);
        event.speed = fields[4].isEmpty() ? null : Double.valueOf(fields[4]);
        event.travelled = Double.parseDouble(fields[5]);
        event.satellites = fields[6].isEmpty() ? null : Integer.valueOf(fields[6]);
        event.accelerating = Boolean.parseBoolean(fields[7]);
        return event;
    }

    public long getVehicle() {
        return vehicle;
    }

    public long getTs() {
        return ts;
    }

    public String getStatus() {
        return status;
    }

    public boolean isIgnition() {
        return ignition;
    }

    public Double getSpeed() {
        return speed;
    }

    public double getTravelled() {
        return travelled;
    }

    public Integer getSatellites() {
        return satellites;
    }

    public boolean isAccelerating() {
        return accelerating;
    }
}

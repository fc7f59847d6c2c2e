import java.nio.charset.StandardCharsets;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

/**
 * The feed of benchmarks/loads/one_feed.py in Flink's DataStream API: lines of one connection in, a line for each detection
 * out. Arguments: the port; a class, a pattern's name, a share and the microseconds that an event takes longer, for each
 * class; then how long a buffer may wait, in ms.
 *
 * Lines are parsed once; each class is a filter with a keyed function behind it, as a user would write it.
 */
public final class InFlinkFeed {
    public static final class Reading {
        public long id;
        public long ts;
        public String kind;
        public double v;
    }

    /** {"id": 7, "ts": 1200, "class": "high", "v": 0.25}, as the sender writes it: cheaper than a parser of JSON. */
    static Reading parse(String line) {
        Reading reading = new Reading();
        int id = line.indexOf(':') + 2;
        int afterId = line.indexOf(',', id);
        int ts = line.indexOf(':', afterId) + 2;
        int afterTs = line.indexOf(',', ts);
        int kind = line.indexOf(':', afterTs) + 3;
        int afterKind = line.indexOf('"', kind);
        int v = line.indexOf(':', afterKind) + 2;
        reading.id = Long.parseLong(line, id, afterId, 10);
        reading.ts = Long.parseLong(line, ts, afterTs, 10);
        reading.kind = line.substring(kind, afterKind);
        reading.v = Double.parseDouble(line.substring(v, line.length() - 1));
        return reading;
    }

    public static final class SlowThenFast extends KeyedProcessFunction<Long, Reading, String> {
        private final String name;
        private final double share;
        private final long anEventNs;
        private transient ValueState<Boolean> wasSlow;

        SlowThenFast(String name, double share, double anEventUs) {
            this.name = name;
            this.share = Math.sqrt(share);
            this.anEventNs = Math.round(1000 * anEventUs);
        }

        @Override
        public void open(OpenContext context) {
            wasSlow = getRuntimeContext().getState(new ValueStateDescriptor<>("slow", Types.BOOLEAN));
        }

        @Override
        public void processElement(Reading reading, Context context, Collector<String> out) throws Exception {
            if (anEventNs > 0) {
                long until = System.nanoTime() + anEventNs;
                while (System.nanoTime() < until) {
                    Thread.onSpinWait();
                }
            }
            if (Boolean.TRUE.equals(wasSlow.value()) && reading.v >= 1 - share) {
                out.collect("{\"pattern\":\"" + name + "\",\"ts\":" + reading.ts + "}");
            }
            wasSlow.update(reading.v < share);
        }
    }

    public static void main(String[] words) throws Exception {
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(new Configuration());
        env.setParallelism(1);
        env.getConfig().enableObjectReuse();
        env.setBufferTimeout(Long.parseLong(words[words.length - 1]));
        DataStream<Reading> readings = env.socketTextStream("127.0.0.1", Integer.parseInt(words[0]), "\n")
                .map(InFlinkFeed::parse).returns(Reading.class);
        for (int i = 1; i + 4 < words.length; i += 4) {
            String kind = words[i];
            SlowThenFast pattern =
                    new SlowThenFast(words[i + 1], Double.parseDouble(words[i + 2]), Double.parseDouble(words[i + 3]));
            readings.filter(reading -> reading.kind.equals(kind)).keyBy(reading -> reading.id, Types.LONG)
                    .process(pattern, Types.STRING).map(line -> {
                        byte[] bytes = (line + "\n").getBytes(StandardCharsets.US_ASCII);
                        synchronized (System.out) {
                            System.out.write(bytes, 0, bytes.length);
                            System.out.flush();
                        }
                        return line;
                    }).returns(Types.STRING).sinkTo(new DiscardingSink<>());
        }
        env.execute();
    }
}

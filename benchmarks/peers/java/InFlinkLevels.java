import java.nio.charset.StandardCharsets;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * The three streams of benchmarks/loads/offered.py in Flink's DataStream API: lines of three connections in, a line for each
 * detection out. Arguments: a name, a port and a share for each stream, then how long a buffer may wait, in ms.
 *
 * Each stream has a chain of its own, as a user would write it; the pattern is a keyed function with one flag a key, which
 * costs less than a pattern of FlinkCEP's.
 */
public final class InFlinkLevels {
    public static final class Reading {
        public long id;
        public long ts;
        public double v;
    }

    /** {"id": 7, "ts": 1200, "v": 0.25}, as the sender writes it: cheaper than a parser of JSON. */
    static Reading parse(String line) {
        Reading reading = new Reading();
        int id = line.indexOf(':') + 2;
        int afterId = line.indexOf(',', id);
        int ts = line.indexOf(':', afterId) + 2;
        int afterTs = line.indexOf(',', ts);
        int v = line.indexOf(':', afterTs) + 2;
        reading.id = Long.parseLong(line, id, afterId, 10);
        reading.ts = Long.parseLong(line, ts, afterTs, 10);
        reading.v = Double.parseDouble(line.substring(v, line.length() - 1));
        return reading;
    }

    public static final class SlowThenFast extends KeyedProcessFunction<Long, Reading, String> {
        private final String name;
        private final double share;
        private transient ValueState<Boolean> wasSlow;

        SlowThenFast(String name, double share) {
            this.name = name;
            this.share = Math.sqrt(share);
        }

        @Override
        public void open(OpenContext context) {
            wasSlow = getRuntimeContext().getState(new ValueStateDescriptor<>("slow", Types.BOOLEAN));
        }

        @Override
        public void processElement(Reading reading, Context context, Collector<String> out) throws Exception {
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
        for (int i = 0; i + 2 < words.length; i += 3) {
            DataStream<String> lines = env.socketTextStream("127.0.0.1", Integer.parseInt(words[i + 1]), "\n");
            lines.map(InFlinkLevels::parse).returns(Reading.class).keyBy(reading -> reading.id, Types.LONG)
                    .process(new SlowThenFast(words[i], Double.parseDouble(words[i + 2])), Types.STRING).map(line -> {
                        byte[] bytes = (line + "\n").getBytes(StandardCharsets.US_ASCII);
                        synchronized (System.out) {
                            System.out.write(bytes, 0, bytes.length);
                            System.out.flush();
                        }
                        return line;
                    }).returns(Types.STRING).sinkTo(new org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink<>());
        }
        env.execute();
    }
}

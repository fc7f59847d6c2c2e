import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.cep.CEP;
import org.apache.flink.cep.PatternStream;
import org.apache.flink.cep.functions.PatternProcessFunction;
import org.apache.flink.cep.nfa.aftermatch.AfterMatchSkipStrategy;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.IterativeCondition;
import org.apache.flink.cep.pattern.conditions.SimpleCondition;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.DataStreamUtils;
import org.apache.flink.streaming.api.datastream.KeyedStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

/** The patterns in FlinkCEP's DataStream API; detections are noted where they are made, in this very process. */
public final class InFlinkCep {
    private static List<Event> source;
    private static Set<Answering.Detection> sink;
    private static MiniCluster cluster; // stays up from pass to pass, as a cluster does from job to job

    public static void main(String[] words) throws Exception {
        cluster = new MiniCluster(new MiniClusterConfiguration.Builder().setNumTaskManagers(1)
                .setNumSlotsPerTaskManager(Answering.THREADS).setConfiguration(new Configuration()).build());
        cluster.start();
        Answering.answer(words, (events, patterns, found) -> {
            source = events;
            sink = found;
            recognise(patterns);
        });
        cluster.close();
    }

    // lines: six
    /** An event and the time since the vehicle's previous one, which a pattern's conditions cannot ask for. */
    public static final class Timed {
        public long vehicle;
        public long ts;
        public long elapsedMs;
        public String status;
        public boolean ignition;
        public Double speed;
        public double travelled;
        public Integer satellites;
        public boolean accelerating;

        boolean is(String wanted) {
            return status.equals(wanted);
        }

        boolean off() {
            return !ignition && elapsedMs > 30 * 60 * 1000;
        }

        boolean fast() {
            return speed != null && speed > 50;
        }

        boolean still() {
            return speed != null && speed == 0;
        }

        boolean zeroSpeed() {
            return is("moving") && still() && travelled > 30;
        }

        boolean badSignal() {
            return accelerating && satellites != null && satellites == 0 && travelled > 30;
        }
        // lines: StopAndGo

        boolean slow() {
            return speed != null && speed < 20;
        }
        // lines: Towed

        boolean towed() {
            return speed != null && speed < 5 && travelled > 60;
        }
        // lines: six
    }

    public static final class Timing extends RichMapFunction<Event, Timed> {
        private transient ValueState<Long> last;

        @Override
        public void open(OpenContext context) {
            last = getRuntimeContext().getState(new ValueStateDescriptor<>("last", Types.LONG));
        }

        @Override
        public Timed map(Event event) throws Exception {
            Timed timed = new Timed();
            Long before = last.value();
            last.update(event.ts);
            timed.elapsedMs = before == null ? -1 : event.ts - before;
            timed.vehicle = event.vehicle;
            timed.ts = event.ts;
            timed.status = event.status;
            timed.ignition = event.ignition;
            timed.speed = event.speed;
            timed.travelled = event.travelled;
            timed.satellites = event.satellites;
            timed.accelerating = event.accelerating;
            return timed;
        }
    }

    private static Pattern<Timed, Timed> begin(SimpleCondition<Timed> condition) {
        return Pattern.<Timed>begin("0", AfterMatchSkipStrategy.noSkip()).where(condition);
    }

    @SafeVarargs
    private static Pattern<Timed, Timed> inTurn(SimpleCondition<Timed>... conditions) {
        Pattern<Timed, Timed> pattern = begin(conditions[0]);
        for (int i = 1; i < conditions.length; i++) {
            pattern = pattern.next(Integer.toString(i)).where(conditions[i]);
        }
        return pattern;
    }

    private static SimpleCondition<Timed> where(org.apache.flink.api.common.functions.FilterFunction<Timed> test) {
        return SimpleCondition.of(test);
    }

    // lines: CalmTrip
    /** Not off, and not the end of fast, slow for a while, fast: looks back through what the match has so far. */
    public static final class Calm extends IterativeCondition<Timed> {
        @Override
        public boolean filter(Timed event, Context<Timed> match) throws Exception {
            if (event.off() || !event.fast()) {
                return !event.off();
            }
            boolean fast = false;
            boolean slow = false;
            for (Timed before : match.getEventsForPattern("body")) {
                slow = before.slow() && (fast || slow);
                fast = before.fast();
            }
            return !slow;
        }
    }
    // lines: six

    private static Pattern<Timed, Timed> patternOf(String name) {
        SimpleCondition<Timed> parked = where(e -> e.is("parked"));
        SimpleCondition<Timed> idle = where(e -> e.is("idle"));
        SimpleCondition<Timed> moving = where(e -> e.is("moving"));
        SimpleCondition<Timed> off = where(Timed::off);
        SimpleCondition<Timed> fast = where(Timed::fast);
        SimpleCondition<Timed> still = where(Timed::still);
        SimpleCondition<Timed> zeroSpeed = where(Timed::zeroSpeed);
        SimpleCondition<Timed> badSignal = where(Timed::badSignal);
        switch (name) {
            case "Route":
                return begin(off).next("on").where(moving).oneOrMore().consecutive().next("end").where(off);
            case "ParkedMovingSwing":
                return inTurn(parked, moving, parked, moving);
            case "IdleParkedSwing":
                return inTurn(idle, parked, idle, parked);
            case "SpeedSwing":
                return inTurn(fast, still, fast, still);
            case "MovingWithZeroSpeed":
                return inTurn(zeroSpeed, zeroSpeed, zeroSpeed);
            case "MovingWithBadSignal":
                return inTurn(badSignal, badSignal, badSignal);
            // lines: StopAndGo
            case "StopAndGo":
                return begin(fast).next("slow").where(where(Timed::slow)).oneOrMore().consecutive()
                        .next("again").where(fast).next("slow again").where(where(Timed::slow)).oneOrMore().consecutive();
            // lines: CalmTrip
            case "CalmTrip":
                return begin(off).next("body").where(new Calm()).oneOrMore().consecutive().next("end").where(off);
            // lines: Towed
            case "Towed":
                return begin(parked).followedBy("fast").where(fast).followedBy("end").where(where(Timed::towed))
                        .within(java.time.Duration.ofHours(2).plusMillis(1));
            // lines: six
            default:
                throw new IllegalArgumentException(name);
        }
    }

    /** The last event of a match; there is one for each start, so that a set has to keep each end once. */
    public static final class Ends extends PatternProcessFunction<Timed, Long> {
        private final String name;

        Ends(String name) {
            this.name = name;
        }

        @Override
        public void processMatch(Map<String, List<Timed>> match, Context context, Collector<Long> out) {
            Timed end = null;
            int n = 0;
            for (List<Timed> events : match.values()) {
                n += events.size();
                for (Timed event : events) {
                    end = end == null || event.ts > end.ts ? event : end;
                }
            }
            // lines: CalmTrip
            if (name.equals("CalmTrip") && n < 5) {
                return;
            }
            // lines: six
            sink.add(new Answering.Detection(name, end.vehicle, end.ts));
        }
    }

    private static void recognise(List<String> patterns) throws Exception {
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(new Configuration());
        env.setParallelism(Answering.THREADS);
        env.getConfig().enableObjectReuse();
        // One source task, since each vehicle's events must come in their order; they are in memory, not serialised.
        DataStream<Event> events = env.fromSequence(0, source.size() - 1).setParallelism(1)
                .map(row -> source.get(row.intValue())).returns(Event.class).setParallelism(1)
                .assignTimestampsAndWatermarks(WatermarkStrategy.<Event>forMonotonousTimestamps()
                        .withTimestampAssigner((event, before) -> event.ts)).setParallelism(1);
        KeyedStream<Timed, Long> timed = DataStreamUtils.reinterpretAsKeyedStream(
                events.keyBy(event -> event.vehicle, Types.LONG).map(new Timing()), event -> event.vehicle, Types.LONG);
        for (String name : patterns) {
            PatternStream<Timed> matches = CEP.pattern(timed, patternOf(name));
            // Events come in the order of time, so only a window needs event time, which buffers and sorts.
            (name.equals("Towed") ? matches.inEventTime() : matches.inProcessingTime())
                    .process(new Ends(name), Types.LONG).sinkTo(new DiscardingSink<>());
        }
        cluster.executeJobBlocking(env.getStreamGraph().getJobGraph());
    }
    // lines: end
}

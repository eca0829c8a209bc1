import java.io.File;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import org.apache.flink.api.common.ExecutionConfig;
import org.apache.flink.api.common.serialization.SerializerConfigImpl;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.api.java.tuple.Tuple4;
import org.apache.flink.cep.functions.PatternProcessFunction;
import org.apache.flink.cep.functions.TimedOutPartialMatchHandler;
import org.apache.flink.cep.nfa.aftermatch.AfterMatchSkipStrategy;
import org.apache.flink.cep.nfa.compiler.NFACompiler;
import org.apache.flink.cep.operator.CepOperator;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.WithinType;
import org.apache.flink.cep.pattern.conditions.IterativeCondition;
import org.apache.flink.cep.pattern.conditions.SimpleCondition;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.util.KeyedOneInputStreamOperatorTestHarness;
import org.apache.flink.util.Collector;
import org.apache.flink.util.OutputTag;

/**
 * Reads cases (a pattern, steps) and writes what Flink's CEP operator emits after each step: matches and timed-out partial matches with their times,
 * each as the numbers of its events by stage; and the numbers of late events. A pattern that Flink refuses has its words instead.
 */
public class RecordMatches {

    /** Key, number, name, amount. */
    private static final TypeInformation<Tuple4<String, Integer, String, Integer>> EVENT =
            Types.TUPLE(Types.STRING, Types.INT, Types.STRING, Types.INT);
    private static final OutputTag<String> TIMED_OUT = new OutputTag<>("timed-out", Types.STRING);
    private static final OutputTag<Tuple4<String, Integer, String, Integer>> LATE = new OutputTag<>("late", EVENT);
    private static final KeySelector<Tuple4<String, Integer, String, Integer>, String> KEY = event -> event.f0;
    private static final ObjectMapper MAPPER = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        List<Object> all = new ArrayList<>();
        for (JsonNode one : MAPPER.readTree(new File(arguments[0]))) {
            try {
                all.add(found(one));
            } catch (Exception error) {
                all.add(Map.of("failed", String.valueOf(error)));
            }
        }
        MAPPER.writeValue(new File(arguments[1]), all);
    }

    private static Object found(JsonNode one) throws Exception {
        NFACompiler.NFAFactory<Tuple4<String, Integer, String, Integer>> factory;
        Pattern<Tuple4<String, Integer, String, Integer>, ?> pattern;
        try {
            pattern = pattern(one.get("pattern"), strategy(one.get("skip")));
            factory = NFACompiler.compileFactory(pattern, true);
        } catch (RuntimeException error) {
            return Map.of("refused", String.valueOf(error.getMessage()));
        }
        boolean byClock = one.get("time").asText().equals("processing");
        CepOperator<Tuple4<String, Integer, String, Integer>, String, String> operator =
                new CepOperator<>(
                        EVENT.createSerializer(new SerializerConfigImpl()), byClock, factory, null,
                        pattern.getAfterMatchSkipStrategy(), new Emit(), LATE);
        List<Object> steps = new ArrayList<>();
        try (KeyedOneInputStreamOperatorTestHarness<String, Tuple4<String, Integer, String, Integer>, String> harness =
                new KeyedOneInputStreamOperatorTestHarness<>(operator, KEY, Types.STRING)) {
            harness.setup(Types.STRING.createSerializer(new SerializerConfigImpl()));
            harness.open();
            harness.setProcessingTime(1);
            for (JsonNode step : one.get("steps")) {
                long time = step.get(1).asLong();
                switch (step.get(0).asText()) {
                    case "event":
                        Tuple4<String, Integer, String, Integer> event =
                                Tuple4.of(step.get(2).asText(), step.get(3).asInt(), step.get(4).asText(), step.get(5).asInt());
                        harness.processElement(byClock ? new StreamRecord<>(event) : new StreamRecord<>(event, time));
                        break;
                    case "watermark":
                        harness.processWatermark(new Watermark(time));
                        break;
                    default:
                        harness.setProcessingTime(time);
                }
                Map<String, Object> emitted = new LinkedHashMap<>();
                put(emitted, "matches", taken(harness.getOutput()));
                put(emitted, "timed_out", taken(harness.getSideOutput(TIMED_OUT)));
                Queue<StreamRecord<Tuple4<String, Integer, String, Integer>>> late = harness.getSideOutput(LATE);
                List<Object> numbers = new ArrayList<>();
                while (late != null && !late.isEmpty()) {
                    numbers.add(late.remove().getValue().f1);
                }
                put(emitted, "late", numbers);
                steps.add(emitted);
            }
        }
        return Map.of("found", steps);
    }

    private static void put(Map<String, Object> emitted, String what, List<Object> found) {
        if (!found.isEmpty()) {
            emitted.put(what, found);
        }
    }

    private static List<Object> taken(Queue<?> output) throws Exception {
        List<Object> found = new ArrayList<>();
        while (output != null && !output.isEmpty()) {
            Object one = output.remove();
            if (one instanceof StreamRecord) {
                StreamRecord<?> record = (StreamRecord<?>) one;
                List<Object> match = new ArrayList<>();
                match.add(record.hasTimestamp() ? record.getTimestamp() : null);
                match.add(MAPPER.readTree((String) record.getValue()));
                found.add(match);
            }
        }
        return found;
    }

    private static AfterMatchSkipStrategy strategy(JsonNode skip) {
        switch (skip.get(0).asText()) {
            case "skip_to_next":
                return AfterMatchSkipStrategy.skipToNext();
            case "skip_past_last_event":
                return AfterMatchSkipStrategy.skipPastLastEvent();
            case "skip_to_first":
                return AfterMatchSkipStrategy.skipToFirst(skip.get(1).asText());
            case "skip_to_last":
                return AfterMatchSkipStrategy.skipToLast(skip.get(1).asText());
            default:
                return AfterMatchSkipStrategy.noSkip();
        }
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static Pattern<Tuple4<String, Integer, String, Integer>, ?> pattern(JsonNode stages, AfterMatchSkipStrategy skip) {
        Pattern pattern = null;
        for (JsonNode stage : stages) {
            JsonNode group = stage.get("group");
            String name = group == null ? stage.get("name").asText() : null;
            Pattern inner = group == null ? null : pattern(group, skip);
            switch (stage.get("how").asText()) {
                case "begin":
                    pattern = group == null ? Pattern.begin(name, skip) : Pattern.begin(inner, skip);
                    break;
                case "next":
                    pattern = group == null ? pattern.next(name) : pattern.next(inner);
                    break;
                case "followed_by":
                    pattern = group == null ? pattern.followedBy(name) : pattern.followedBy(inner);
                    break;
                case "followed_by_any":
                    pattern = group == null ? pattern.followedByAny(name) : pattern.followedByAny(inner);
                    break;
                case "not_next":
                    pattern = pattern.notNext(name);
                    break;
                default:
                    pattern = pattern.notFollowedBy(name);
            }
            for (JsonNode call : stage.get("calls")) {
                called(pattern, call);
            }
        }
        return pattern;
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static void called(Pattern pattern, JsonNode call) {
        Duration window = call.has(3) ? Duration.ofMillis(call.get(3).asLong()) : null;
        switch (call.get(0).asText()) {
            case "where":
                pattern.where(condition(call.get(1)));
                break;
            case "or_":
                pattern.or(condition(call.get(1)));
                break;
            case "until":
                pattern.until(condition(call.get(1)));
                break;
            case "times":
                if (call.has(2) && !call.get(2).isNull()) {
                    pattern.times(call.get(1).asInt(), call.get(2).asInt(), window);
                } else {
                    pattern.times(call.get(1).asInt(), window);
                }
                break;
            case "one_or_more":
                pattern.oneOrMore();
                break;
            case "times_or_more":
                pattern.timesOrMore(call.get(1).asInt());
                break;
            case "optional":
                pattern.optional();
                break;
            case "greedy":
                pattern.greedy();
                break;
            case "consecutive":
                pattern.consecutive();
                break;
            case "allow_combinations":
                pattern.allowCombinations();
                break;
            case "within":
                pattern.within(Duration.ofMillis(call.get(1).asLong()));
                break;
            case "within_previous":
                pattern.within(Duration.ofMillis(call.get(1).asLong()), WithinType.PREVIOUS_AND_CURRENT);
                break;
            default:
                throw new IllegalArgumentException(call.toString());
        }
    }

    private static IterativeCondition<Tuple4<String, Integer, String, Integer>> condition(JsonNode one) {
        if (one.get(0).asText().equals("rising") || one.get(0).asText().equals("sum_below")) {
            return new Iterative(one.get(0).asText(), one.get(1).asText(), one.get(2).asInt());
        }
        return new Simple(one.get(0).asText(), one.get(1).asText());
    }

    public static class Simple extends SimpleCondition<Tuple4<String, Integer, String, Integer>> {
        private final String what;
        private final String operand;

        Simple(String what, String operand) {
            this.what = what;
            this.operand = operand;
        }

        @Override
        public boolean filter(Tuple4<String, Integer, String, Integer> event) {
            return what.equals("is") ? event.f2.equals(operand) : event.f3 > Integer.parseInt(operand);
        }
    }

    public static class Iterative extends IterativeCondition<Tuple4<String, Integer, String, Integer>> {
        private final String what;
        private final String stage;
        private final int bound;

        Iterative(String what, String stage, int bound) {
            this.what = what;
            this.stage = stage;
            this.bound = bound;
        }

        @Override
        public boolean filter(
                Tuple4<String, Integer, String, Integer> event, Context<Tuple4<String, Integer, String, Integer>> context)
                throws Exception {
            int sum = event.f3;
            int last = Integer.MIN_VALUE;
            for (Tuple4<String, Integer, String, Integer> one : context.getEventsForPattern(stage)) {
                sum += one.f3;
                last = one.f3;
            }
            return what.equals("rising") ? event.f3 > last : sum < bound;
        }
    }

    public static class Emit extends PatternProcessFunction<Tuple4<String, Integer, String, Integer>, String>
            implements TimedOutPartialMatchHandler<Tuple4<String, Integer, String, Integer>> {
        @Override
        public void processMatch(
                Map<String, List<Tuple4<String, Integer, String, Integer>>> match, Context context, Collector<String> out)
                throws Exception {
            out.collect(written(match));
        }

        @Override
        public void processTimedOutMatch(Map<String, List<Tuple4<String, Integer, String, Integer>>> match, Context context)
                throws Exception {
            context.output(TIMED_OUT, written(match));
        }

        private static String written(Map<String, List<Tuple4<String, Integer, String, Integer>>> match) throws Exception {
            Map<String, Object> numbers = new LinkedHashMap<>();
            for (Map.Entry<String, List<Tuple4<String, Integer, String, Integer>>> stage : match.entrySet()) {
                List<Integer> found = new ArrayList<>();
                for (Tuple4<String, Integer, String, Integer> event : stage.getValue()) {
                    found.add(event.f1);
                }
                numbers.put(stage.getKey(), found);
            }
            return MAPPER.writeValueAsString(numbers);
        }
    }
}

import java.io.File;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Queue;
import org.apache.flink.api.common.ExecutionConfig;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.api.windowing.assigners.*;
import org.apache.flink.streaming.api.windowing.triggers.*;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.streaming.api.windowing.windows.Window;
import org.apache.flink.streaming.runtime.operators.windowing.WindowOperatorBuilder;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.util.KeyedOneInputStreamOperatorTestHarness;
import org.apache.flink.util.Collector;
import org.apache.flink.util.OutputTag;

/**
 * Reads cases (an assigner, a trigger, a lateness, events) and writes what Flink's window operator emits after each event, sorted:
 * "key start: values", and "late value" for what is late. The clock's timers that are due fire after each event.
 */
public class RecordFirings {
    private static final TypeInformation<Tuple2<String, Long>> PAIR = Types.TUPLE(Types.STRING, Types.LONG);
    private static final OutputTag<Tuple2<String, Long>> LATE = new OutputTag<>("late", PAIR);
    private static final KeySelector<Tuple2<String, Long>, String> KEY = pair -> pair.f0;

    public static void main(String[] arguments) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        List<List<List<String>>> all = new ArrayList<>();
        for (JsonNode one : mapper.readTree(new File(arguments[0]))) {
            all.add(fired(one));
        }
        mapper.writeValue(new File(arguments[1]), all);
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static List<List<String>> fired(JsonNode one) throws Exception {
        WindowAssigner assigner = assigner(one.get("assigner"));
        Trigger trigger = trigger(one.get("trigger"), assigner.isEventTime());
        WindowOperatorBuilder builder =
                new WindowOperatorBuilder(assigner, trigger, new ExecutionConfig(), PAIR, KEY, Types.STRING);
        if (one.get("lateness").asLong() > 0) {
            builder.allowedLateness(Duration.ofMillis(one.get("lateness").asLong()));
        }
        if (assigner.isEventTime()) {
            builder.sideOutputLateData(LATE);
        }
        OneInputStreamOperator<Tuple2<String, Long>, String> operator = builder.process(new Values());
        List<List<String>> all = new ArrayList<>();
        try (KeyedOneInputStreamOperatorTestHarness<String, Tuple2<String, Long>, String> harness =
                new KeyedOneInputStreamOperatorTestHarness<>(operator, KEY, Types.STRING)) {
            harness.open();
            harness.setProcessingTime(0);
            for (JsonNode event : one.get("events")) {
                long time = event.get(1).asLong();
                switch (event.get(0).asText()) {
                    case "clock":
                        harness.setProcessingTime(time);
                        break;
                    case "watermark":
                        harness.processWatermark(new Watermark(time));
                        break;
                    default:
                        harness.processElement(
                                new StreamRecord<>(Tuple2.of(event.get(2).asText(), event.get(3).asLong()), time));
                }
                harness.setProcessingTime(harness.getProcessingTime());
                all.add(taken(harness));
            }
        }
        return all;
    }

    private static List<String> taken(KeyedOneInputStreamOperatorTestHarness<String, Tuple2<String, Long>, String> harness) {
        List<String> taken = new ArrayList<>();
        for (Object found : harness.getOutput()) {
            if (found instanceof StreamRecord) {
                taken.add((String) ((StreamRecord<?>) found).getValue());
            }
        }
        harness.getOutput().clear();
        Queue<StreamRecord<Tuple2<String, Long>>> late = harness.getSideOutput(LATE);
        while (late != null && !late.isEmpty()) {
            taken.add("late " + late.poll().getValue().f1);
        }
        Collections.sort(taken);
        return taken;
    }

    private static WindowAssigner<?, ?> assigner(JsonNode told) {
        Duration size = Duration.ofMillis(told.size() > 1 ? told.get(1).asLong() : 0);
        switch (told.get(0).asText()) {
            case "TumblingEventTimeWindows":
                return TumblingEventTimeWindows.of(size);
            case "TumblingProcessingTimeWindows":
                return TumblingProcessingTimeWindows.of(size);
            case "SlidingEventTimeWindows":
                return SlidingEventTimeWindows.of(size, Duration.ofMillis(told.get(2).asLong()));
            case "SlidingProcessingTimeWindows":
                return SlidingProcessingTimeWindows.of(size, Duration.ofMillis(told.get(2).asLong()));
            case "EventTimeSessionWindows":
                return EventTimeSessionWindows.withGap(size);
            case "ProcessingTimeSessionWindows":
                return ProcessingTimeSessionWindows.withGap(size);
            default:
                return GlobalWindows.create();
        }
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static Trigger trigger(JsonNode told, boolean isEventTime) {
        switch (told.get(0).asText()) {
            case "EventTimeTrigger":
                return EventTimeTrigger.create();
            case "ProcessingTimeTrigger":
                return ProcessingTimeTrigger.create();
            case "ContinuousEventTimeTrigger":
                return ContinuousEventTimeTrigger.of(Duration.ofMillis(told.get(1).asLong()));
            case "ContinuousProcessingTimeTrigger":
                Trigger found = ContinuousProcessingTimeTrigger.of(Duration.ofMillis(told.get(1).asLong()));
                return isEventTime ? new AgainAfterTheEnd(found) : found;
            case "CountTrigger":
                return CountTrigger.of(told.get(1).asLong());
            default:
                return PurgingTrigger.of(trigger(told.get(1), isEventTime));
        }
    }

    private static class Values extends ProcessWindowFunction<Tuple2<String, Long>, String, String, Window> {
        @Override
        public void process(
                String key, Context context, Iterable<Tuple2<String, Long>> elements, Collector<String> out) {
            List<Long> values = new ArrayList<>();
            elements.forEach(one -> values.add(one.f1));
            Collections.sort(values); // in which order windows are merged is that of a hash table
            Window window = context.window();
            String start = window instanceof TimeWindow ? String.valueOf(((TimeWindow) window).getStart()) : "all";
            out.collect(key + " " + start + ": " + values);
        }
    }

    /**
     * Java's ContinuousProcessingTimeTrigger fires once when the clock passes the end of a window of event time and then never again;
     * PyFlink's fires for ever. This one has nothing registered after that, so that the next record registers the end again.
     */
    private static class AgainAfterTheEnd extends Trigger<Object, Window> {
        private final Trigger<Object, Window> inner;

        AgainAfterTheEnd(Trigger<Object, Window> inner) {
            this.inner = inner;
        }

        @Override
        public TriggerResult onElement(Object element, long timestamp, Window window, TriggerContext context)
                throws Exception {
            return inner.onElement(element, timestamp, window, context);
        }

        @Override
        public TriggerResult onProcessingTime(long time, Window window, TriggerContext context) throws Exception {
            TriggerResult result = inner.onProcessingTime(time, window, context);
            if (time == window.maxTimestamp()) {
                inner.clear(window, context);
            }
            return result;
        }

        @Override
        public TriggerResult onEventTime(long time, Window window, TriggerContext context) throws Exception {
            return inner.onEventTime(time, window, context);
        }

        @Override
        public boolean canMerge() {
            return true;
        }

        @Override
        public void onMerge(Window window, OnMergeContext context) throws Exception {
            inner.onMerge(window, context);
        }

        @Override
        public void clear(Window window, TriggerContext context) throws Exception {
            inner.clear(window, context);
        }
    }
}

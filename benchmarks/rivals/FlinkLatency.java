import java.io.BufferedWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.typeinfo.TypeHint;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/**
 * The job of latency_job.py in Java: rows a second, seconds, parallelism, output directory, buffer timeout in ms, keys, and
 * "map" or "reduce".
 */
public class FlinkLatency {
  static long micros() {
    Instant now = Instant.now();
    return now.getEpochSecond() * 1_000_000 + now.getNano() / 1_000;
  }

  /** Keeps the latency of every row that it sees, in microseconds; writes them, a line each, when it is closed. */
  static class Noted extends RichMapFunction<Tuple2<Long, Long>, Tuple2<Long, Long>> {
    private final String directory;
    private transient long[] found;
    private transient int count;

    Noted(String directory) {
      this.directory = directory;
    }

    @Override
    public void open(OpenContext context) {
      found = new long[1 << 20];
    }

    @Override
    public Tuple2<Long, Long> map(Tuple2<Long, Long> row) {
      if (count == found.length) {
        found = java.util.Arrays.copyOf(found, 2 * count);
      }
      found[count++] = micros() - row.f1;
      return row;
    }

    @Override
    public void close() throws Exception {
      int index = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
      try (BufferedWriter file = Files.newBufferedWriter(Path.of(directory, "latency-" + index + ".txt"))) {
        for (int i = 0; i < count; i++) {
          file.write(Long.toString(found[i]));
          file.newLine();
        }
      }
    }
  }

  public static void main(String[] arguments) throws Exception {
    double rate = Double.parseDouble(arguments[0]);
    long rows = (long) rate * Long.parseLong(arguments[1]);
    int parallelism = Integer.parseInt(arguments[2]);
    long keys = Long.parseLong(arguments[5]);
    Configuration configuration = new Configuration();
    configuration.setString("execution.checkpointing.storage", "filesystem"); // the JobManager's memory takes 5 MB
    configuration.setString("execution.checkpointing.dir", Path.of(arguments[3], "checkpoints").toUri().toString());
    StreamExecutionEnvironment env =
        StreamExecutionEnvironment.createLocalEnvironment(parallelism, configuration);
    env.enableCheckpointing(1000);
    env.setBufferTimeout(Long.parseLong(arguments[4]));
    env.getConfig().enableObjectReuse();
    TypeInformation<Tuple2<Long, Long>> pair = TypeInformation.of(new TypeHint<Tuple2<Long, Long>>() {});
    DataGeneratorSource<Tuple2<Long, Long>> source =
        new DataGeneratorSource<>(
            n -> Tuple2.of(n * 7919 % keys, micros()), rows, RateLimiterStrategy.perSecond(rate), pair);
    DataStream<Tuple2<Long, Long>> made = env.fromSource(source, WatermarkStrategy.noWatermarks(), "rows");
    DataStream<Tuple2<Long, Long>> done;
    if (arguments[6].equals("map")) {
      done = made.map(row -> Tuple2.of(row.f0 / 2, row.f1)).returns(pair);
    } else {
      done = made.keyBy(row -> row.f0, TypeInformation.of(Long.class)).reduce((a, b) -> b);
    }
    done.map(new Noted(arguments[3])).returns(pair).sinkTo(new DiscardingSink<>());
    env.execute("latency");
  }
}

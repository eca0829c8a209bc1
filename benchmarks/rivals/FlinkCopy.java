import java.util.Properties;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.AbstractDeserializationSchema;
import org.apache.flink.api.common.serialization.SerializationSchema;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** Kafka to Kafka, exactly once, bytes as they are: servers, input, output, checkpoint interval in ms. */
public class FlinkCopy {
  static class Bytes extends AbstractDeserializationSchema<byte[]> implements SerializationSchema<byte[]> {
    @Override
    public byte[] deserialize(byte[] message) {
      return message;
    }

    @Override
    public byte[] serialize(byte[] message) {
      return message;
    }

    @Override
    public void open(SerializationSchema.InitializationContext context) {}
  }

  public static void main(String[] arguments) throws Exception {
    StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(1);
    env.enableCheckpointing(Long.parseLong(arguments[3]));
    env.getConfig().enableObjectReuse();
    KafkaSource<byte[]> source =
        KafkaSource.<byte[]>builder()
            .setBootstrapServers(arguments[0])
            .setTopics(arguments[1])
            .setGroupId("flink-copy")
            .setStartingOffsets(OffsetsInitializer.earliest())
            .setValueOnlyDeserializer(new Bytes())
            .build();
    Properties properties = new Properties();
    properties.setProperty("transaction.timeout.ms", "600000");
    properties.setProperty("batch.size", "1000000");
    properties.setProperty("linger.ms", "5");
    KafkaSink<byte[]> sink =
        KafkaSink.<byte[]>builder()
            .setBootstrapServers(arguments[0])
            .setKafkaProducerConfig(properties)
            .setRecordSerializer(
                KafkaRecordSerializationSchema.builder()
                    .setTopic(arguments[2])
                    .setValueSerializationSchema(new Bytes())
                    .build())
            .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
            .setTransactionalIdPrefix("flink-copy-" + arguments[2])
            .build();
    env.fromSource(source, WatermarkStrategy.noWatermarks(), "source").sinkTo(sink);
    env.execute("copy");
  }
}

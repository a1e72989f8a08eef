import java.time.Duration;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Prints a number of committed messages of a topic: partition, headers, key, value, in hexadecimal, with tabs. */
public class ReadTopic {
    public static void main(String[] arguments) {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", arguments[0], "isolation.level", "read_committed", "auto.offset.reset", "earliest");
        var bytes = new ByteArrayDeserializer();
        try (var consumer = new KafkaConsumer<>(settings, bytes, bytes)) {
            List<TopicPartition> partitions = consumer.partitionsFor(arguments[1]).stream()
                .map(found -> new TopicPartition(found.topic(), found.partition())).toList();
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            for (int left = Integer.parseInt(arguments[2]); left > 0; ) {
                for (ConsumerRecord<byte[], byte[]> message : consumer.poll(Duration.ofSeconds(1))) {
                    String headers = String.join(",", Arrays.stream(message.headers().toArray())
                        .map(header -> header.key() + "=" + hex(header.value())).toList());
                    System.out.println(String.join(
                        "\t", "" + message.partition(), headers, hex(message.key()), hex(message.value())));
                    left--;
                }
            }
        }
    }

    private static String hex(byte[] value) {
        return value == null ? "null" : HexFormat.of().formatHex(value);
    }
}

import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.transforms.Transformation;

/** Makes a row of a message that is a JSON object: Debezium's sink needs a struct. All others go to the dead letter queue. */
public final class MessageToRow implements Transformation<SinkRecord> {
    private static final ObjectMapper JSON = new ObjectMapper();
    // What Debezium's own sources call a column of type jsonb.
    private static final Schema JSONB = SchemaBuilder.string()
        .name("io.debezium.data.Json").parameter("__debezium.source.column.type", "JSONB").build();
    private static final Schema ROW = SchemaBuilder.struct()
        .field("topic", Schema.STRING_SCHEMA)
        .field("partition", Schema.INT32_SCHEMA)
        .field("offset", Schema.INT64_SCHEMA)
        .field("key", Schema.STRING_SCHEMA)
        .field("body", JSONB)
        .build();

    @Override
    public SinkRecord apply(SinkRecord record) {
        Struct row = new Struct(ROW)
            .put("topic", record.topic())
            .put("partition", record.kafkaPartition())
            .put("offset", record.kafkaOffset())
            .put("key", new String((byte[]) record.key(), StandardCharsets.UTF_8))
            .put("body", object((byte[]) record.value()));
        return record.newRecord(record.topic(), record.kafkaPartition(), null, null, ROW, row, record.timestamp(), null);
    }

    private static String object(byte[] value) {
        try {
            String text = StandardCharsets.UTF_8.newDecoder().decode(java.nio.ByteBuffer.wrap(value)).toString();
            if (JSON.readTree(text).isObject()) {
                return text;
            }
        } catch (Exception failure) {
            throw new DataException("The message is not JSON.", failure);
        }
        throw new DataException("The message is not an object.");
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef();
    }

    @Override
    public void configure(Map<String, ?> settings) {}

    @Override
    public void close() {}
}

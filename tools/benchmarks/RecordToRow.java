import com.fasterxml.jackson.core.io.JsonStringEncoder;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.transforms.Transformation;

/** Makes a row of `plain_rows` of a Kafka record, without its id: Debezium's sink needs a struct, and no transform makes the request. */
public final class RecordToRow implements Transformation<SinkRecord> {
    // What Debezium's own sources call a column of type jsonb.
    private static final Schema JSONB = SchemaBuilder.string()
        .name("io.debezium.data.Json").parameter("__debezium.source.column.type", "JSONB").build();
    private static final Schema ROW = SchemaBuilder.struct()
        .field("topic", Schema.STRING_SCHEMA)
        .field("partition", Schema.INT32_SCHEMA)
        .field("offset", Schema.INT64_SCHEMA)
        .field("body", JSONB)
        .field("request", JSONB)
        .build();

    @Override
    public SinkRecord apply(SinkRecord record) {
        Struct row = new Struct(ROW)
            .put("topic", record.topic())
            .put("partition", record.kafkaPartition())
            .put("offset", record.kafkaOffset())
            .put("body", record.value())
            .put("request", request(record));
        return record.newRecord(
            record.topic(), record.kafkaPartition(), null, null, ROW, row, record.timestamp(), null);
    }

    private static String request(SinkRecord record) {
        StringBuilder json = new StringBuilder(256).append("{\"key\":");
        quote(json, (String) record.key()).append(",\"topic\":");
        quote(json, record.topic()).append(",\"offset\":").append(record.kafkaOffset()).append(",\"headers\":[");
        String separator = "[";
        for (Header header : record.headers()) {
            quote(json.append(separator), header.key()).append(',');
            quote(json, new String((byte[]) header.value(), StandardCharsets.UTF_8)).append(']');
            separator = ",[";
        }
        return json.append("],\"partition\":").append(record.kafkaPartition())
            .append(",\"timestamp\":").append(record.timestamp())
            .append(",\"timestamp_type\":\"").append(record.timestampType().name).append("\"}").toString();
    }

    private static StringBuilder quote(StringBuilder json, String text) {
        json.append('"');
        JsonStringEncoder.getInstance().quoteAsString(text, json);
        return json.append('"');
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

"""Apache Kafka as source and sink, on ``confluent-kafka`` and ``kafka-python`` (the extra ``tidegate[kafka]``).

KafkaSource ─▶ KafkaReader: a fetcher thread reads ahead; offsets are of what was emitted
                 Incoming ◀── by column (columnar.fetching), or librdkafka's messages
KafkaSink   ─▶ AT_LEAST_ONCE, NONE   DirectWriter: records are sent as they come
            └▶ EXACTLY_ONCE          EpochWriter: an epoch's records travel in the checkpoint; on confirm
                                     EpochPublisher sends them in one transaction with a marker (docs/adr/0050)
                 TransactionalProducer ◀── by column (columnar.transaction), or librdkafka's messages

Which of both a source or sink goes by is decided by its properties (docs/adr/0063).
"""

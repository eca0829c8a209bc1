"""Apache Kafka as source and sink, on ``confluent-kafka`` (the extra ``tidegate[kafka]``).

KafkaSource ─▶ KafkaReader: a fetcher thread reads ahead; offsets are of what was emitted
KafkaSink   ─▶ AT_LEAST_ONCE, NONE   DirectWriter: records are sent as they come
            └▶ EXACTLY_ONCE          EpochWriter: an epoch's records travel in the checkpoint; on confirm
                                     EpochPublisher sends them in one transaction with a marker (docs/adr/0050)
"""

"""The configuration keys that Flink 2.3.0 knows, read by reflection from its released jars.

A key that is here and not declared in `tidegate.model.options` is accepted and has no effect. Data, not code: made once
from the list of a release, and changed only with another release.
"""

from __future__ import annotations

_NAMES = """
application-result-store.delete-on-commit application-result-store.storage-path blob.client.connect.timeout
blob.client.socket.timeout blob.fetch.backlog blob.fetch.num-concurrent blob.fetch.retries blob.offload.minsize
blob.server.port blob.service.cleanup.interval blob.service.ssl.enabled blob.storage.directory
classloader.check-leaked-classloader classloader.fail-on-metaspace-oom-error classloader.parent-first-patterns.additional
classloader.parent-first-patterns.default classloader.resolve-order cleanup-strategy.exponential-delay.attempts
cleanup-strategy.exponential-delay.initial-backoff cleanup-strategy.exponential-delay.max-backoff
cleanup-strategy.fixed-delay.attempts cleanup-strategy.fixed-delay.delay cleanup-strategy.type client.heartbeat.interval
client.heartbeat.timeout client.retry-period client.timeout cluster.id cluster.intercept-user-system-exit cluster.io-pool.size
cluster.processes.halt-on-fatal-error cluster.registration.error-delay cluster.registration.initial-timeout
cluster.registration.max-timeout cluster.registration.refused-registration-delay cluster.services.shutdown-timeout
cluster.thread-dump.stacktrace-max-depth cluster.uncaught-exception-handling compiler.delimited-informat.max-line-samples
compiler.delimited-informat.max-sample-len compiler.delimited-informat.min-line-samples completed-application-store.cache-size
completed-application-store.expiration-time completed-application-store.max-capacity completed-application-store.type
env.hadoop.conf.dir env.hbase.conf.dir env.java.default-opts.all env.java.default-opts.jobmanager
env.java.default-opts.taskmanager env.java.home env.java.opts.all env.java.opts.client env.java.opts.historyserver
env.java.opts.jobmanager env.java.opts.sql-gateway env.java.opts.taskmanager env.log.dir env.log.level env.log.max env.pid.dir
env.ssh.opts env.stdout-err.redirect-to-file env.yarn.conf.dir events.reporters execution.async-state.active-buffer-size
execution.async-state.active-buffer-timeout execution.async-state.total-buffer-size execution.attached
execution.batch-shuffle-mode execution.batch-state-backend.enabled
execution.batch.adaptive.auto-parallelism.avg-data-volume-per-task
execution.batch.adaptive.auto-parallelism.default-source-parallelism execution.batch.adaptive.auto-parallelism.enabled
execution.batch.adaptive.auto-parallelism.max-parallelism execution.batch.adaptive.auto-parallelism.min-parallelism
execution.batch.job-recovery.enabled execution.batch.job-recovery.previous-worker.recovery.timeout
execution.batch.job-recovery.snapshot.min-pause execution.batch.speculative.block-slow-node-duration
execution.batch.speculative.enabled execution.batch.speculative.max-concurrent-executions execution.buffer-timeout.enabled
execution.buffer-timeout.interval execution.checkpointing.aligned-checkpoint-timeout
execution.checkpointing.checkpoints-after-tasks-finish execution.checkpointing.cleaner.parallel-mode
execution.checkpointing.create-subdir execution.checkpointing.data-inline-threshold execution.checkpointing.dir
execution.checkpointing.during-recovery.enabled execution.checkpointing.externalized-checkpoint-retention
execution.checkpointing.file-merging.across-checkpoint-boundary execution.checkpointing.file-merging.enabled
execution.checkpointing.file-merging.max-file-size execution.checkpointing.file-merging.max-space-amplification
execution.checkpointing.file-merging.max-subtasks-per-file execution.checkpointing.file-merging.pool-blocking
execution.checkpointing.incremental execution.checkpointing.interval execution.checkpointing.interval-during-backlog
execution.checkpointing.local-backup.dirs execution.checkpointing.local-backup.enabled
execution.checkpointing.max-concurrent-checkpoints execution.checkpointing.min-pause execution.checkpointing.mode
execution.checkpointing.num-retained execution.checkpointing.savepoint-dir execution.checkpointing.snapshot-compression
execution.checkpointing.storage execution.checkpointing.timeout execution.checkpointing.tolerable-failed-checkpoints
execution.checkpointing.unaligned.enabled execution.checkpointing.unaligned.forced
execution.checkpointing.unaligned.interruptible-timers.enabled
execution.checkpointing.unaligned.max-subtasks-per-channel-state-file
execution.checkpointing.unaligned.recover-output-on-downstream.enabled execution.checkpointing.write-buffer-size
execution.job-listeners execution.job-status-changed-listeners execution.program-config.enabled
execution.program-config.wildcards execution.runtime-mode execution.shutdown-on-application-finish
execution.shutdown-on-attached-exit execution.sort-keyed-partition.memory execution.sort-partition.memory
execution.sorted-inputs.enabled execution.sorted-inputs.memory execution.state-recovery.approximate-local-recovery
execution.state-recovery.claim-mode execution.state-recovery.from-local execution.state-recovery.ignore-unclaimed-state
execution.state-recovery.path execution.state-recovery.without-channel-state.checkpoint-id
execution.submit-failed-job-on-application-error execution.target
execution.terminate-application-on-any-job-terminated-exceptionally external-resources fs.allowed-fallback-filesystems
fs.default-scheme fs.output.always-create-directory fs.overwrite-files heartbeat.interval heartbeat.rpc-failure-threshold
heartbeat.timeout high-availability.cluster-id high-availability.jobmanager.port high-availability.storageDir
high-availability.type high-availability.zookeeper.client.acl high-availability.zookeeper.client.authorization
high-availability.zookeeper.client.connection-timeout high-availability.zookeeper.client.ensemble-tracker
high-availability.zookeeper.client.max-close-wait high-availability.zookeeper.client.max-retry-attempts
high-availability.zookeeper.client.max-retry-wait high-availability.zookeeper.client.retry-wait
high-availability.zookeeper.client.session-timeout high-availability.zookeeper.client.simulated-session-expiration-percent
high-availability.zookeeper.client.tolerate-suspended-connections high-availability.zookeeper.path.applications
high-availability.zookeeper.path.execution-plans high-availability.zookeeper.path.root high-availability.zookeeper.quorum
historyserver.archive.clean-expired-applications historyserver.archive.clean-expired-jobs historyserver.archive.fs.dir
historyserver.archive.fs.refresh-interval historyserver.archive.retained-applications historyserver.archive.retained-jobs
historyserver.archive.retained-ttl historyserver.log.jobmanager.url-pattern historyserver.log.taskmanager.url-pattern
historyserver.web.address historyserver.web.port historyserver.web.refresh-interval historyserver.web.ssl.enabled
historyserver.web.tmpdir io.tmp.dirs jmx.server.port job-event.store.write-buffer.flush-interval
job-event.store.write-buffer.size job-result-store.delete-on-commit job-result-store.storage-path
jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling
jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout jobmanager.adaptive-scheduler.min-parallelism-increase
jobmanager.adaptive-scheduler.prefer-minimal-taskmanagers
jobmanager.adaptive-scheduler.rescale-trigger.max-checkpoint-failures jobmanager.adaptive-scheduler.rescale-trigger.max-delay
jobmanager.adaptive-scheduler.resource-stabilization-timeout jobmanager.adaptive-scheduler.resource-wait-timeout
jobmanager.adaptive-scheduler.scaling-interval.max jobmanager.adaptive-scheduler.scaling-interval.min
jobmanager.adaptive-scheduler.submission.resource-stabilization-timeout
jobmanager.adaptive-scheduler.submission.resource-wait-timeout jobmanager.archive.fs.dir jobmanager.bind-host
jobmanager.execution.attempts-history-size jobmanager.execution.failover-strategy jobmanager.failure-enrichers
jobmanager.future-pool.size jobmanager.io-pool.size jobmanager.memory.enable-jvm-direct-memory-limit
jobmanager.memory.flink.size jobmanager.memory.heap.size jobmanager.memory.jvm-metaspace.size
jobmanager.memory.jvm-overhead.fraction jobmanager.memory.jvm-overhead.max jobmanager.memory.jvm-overhead.min
jobmanager.memory.off-heap.size jobmanager.memory.process.size jobmanager.partition.hybrid.partition-data-consume-constraint
jobmanager.partition.release-during-job-execution jobmanager.resource-id jobmanager.retrieve-taskmanager-hostname
jobmanager.rpc.address jobmanager.rpc.bind-port jobmanager.rpc.port jobmanager.scheduler jobstore.cache-size
jobstore.expiration-time jobstore.max-capacity jobstore.type metrics.fetcher.update-interval
metrics.internal.query-service.port metrics.internal.query-service.thread-priority metrics.job.status.enable
metrics.latency.granularity metrics.latency.history-size metrics.latency.interval metrics.reporters metrics.scope.delimiter
metrics.scope.jm metrics.scope.jm-job metrics.scope.jm-operator metrics.scope.operator metrics.scope.task metrics.scope.tm
metrics.scope.tm-job metrics.system-resource metrics.system-resource-probing-interval minicluster.number-of-taskmanagers
parallelism.default pekko.ask.callstack pekko.ask.timeout pekko.client-socket-worker-pool.pool-size-factor
pekko.client-socket-worker-pool.pool-size-max pekko.client-socket-worker-pool.pool-size-min
pekko.fork-join-executor.parallelism-factor pekko.fork-join-executor.parallelism-max pekko.fork-join-executor.parallelism-min
pekko.framesize pekko.jvm-exit-on-fatal-error pekko.log.lifecycle.events pekko.lookup.timeout
pekko.remote-fork-join-executor.parallelism-factor pekko.remote-fork-join-executor.parallelism-max
pekko.remote-fork-join-executor.parallelism-min pekko.retry-gate-closed-for pekko.rpc.force-invocation-serialization
pekko.server-socket-worker-pool.pool-size-factor pekko.server-socket-worker-pool.pool-size-max
pekko.server-socket-worker-pool.pool-size-min pekko.ssl.enabled pekko.startup-timeout pekko.tcp.timeout pekko.throughput
pipeline.auto-generate-uids pipeline.auto-watermark-interval pipeline.cached-files pipeline.classpaths
pipeline.closure-cleaner-level pipeline.force-avro pipeline.force-kryo pipeline.force-kryo-avro pipeline.generic-types
pipeline.global-job-parameters pipeline.jars pipeline.jobvertex-parallelism-overrides pipeline.max-parallelism pipeline.name
pipeline.object-reuse pipeline.operator-chaining.chain-operators-with-different-max-parallelism
pipeline.operator-chaining.enabled pipeline.serialization-config pipeline.sources.pause-until-first-checkpoint
pipeline.vertex-description-mode pipeline.vertex-name-include-index-prefix
pipeline.watermark-alignment.allow-unaligned-source-splits pipeline.watermark-alignment.buffer-size
plugin.classloader.parent-first-patterns.additional plugin.classloader.parent-first-patterns.default
process.jobmanager.working-dir process.taskmanager.working-dir process.working-dir queryable-state.client.network-threads
queryable-state.enable queryable-state.proxy.network-threads queryable-state.proxy.ports queryable-state.proxy.query-threads
queryable-state.server.network-threads queryable-state.server.ports queryable-state.server.query-threads
resourcemanager.job.timeout resourcemanager.previous-worker.recovery.timeout resourcemanager.rpc.port
resourcemanager.standalone.start-up-time resourcemanager.start-worker.max-failure-rate
resourcemanager.start-worker.retry-interval resourcemanager.taskmanager-registration.timeout
resourcemanager.taskmanager-timeout rest.address rest.async.store-duration rest.await-leader-timeout rest.bind-address
rest.bind-port rest.cache.checkpoint-statistics.size rest.cache.checkpoint-statistics.timeout
rest.cache.execution-graph.timeout rest.client.max-content-length rest.connection-timeout rest.flamegraph.cleanup-interval
rest.flamegraph.delay-between-samples rest.flamegraph.enabled rest.flamegraph.num-samples rest.flamegraph.refresh-interval
rest.flamegraph.stack-depth rest.idleness-timeout rest.path rest.port rest.profiling.dir rest.profiling.duration-max
rest.profiling.enabled rest.profiling.history-size rest.retry.delay rest.retry.max-attempts rest.server.max-content-length
rest.server.numThreads rest.server.thread-priority rest.url-prefix
restart-strategy.exponential-delay.attempts-before-reset-backoff restart-strategy.exponential-delay.backoff-multiplier
restart-strategy.exponential-delay.initial-backoff restart-strategy.exponential-delay.jitter-factor
restart-strategy.exponential-delay.max-backoff restart-strategy.exponential-delay.reset-backoff-threshold
restart-strategy.failure-rate.delay restart-strategy.failure-rate.failure-rate-interval
restart-strategy.failure-rate.max-failures-per-interval restart-strategy.fixed-delay.attempts
restart-strategy.fixed-delay.delay restart-strategy.type scheduler-mode security.context.factory.classes
security.delegation.tokens.enabled security.delegation.tokens.renewal.retry.backoff
security.delegation.tokens.renewal.time-ratio security.kerberos.access.hadoopFileSystems security.kerberos.krb5-conf.path
security.kerberos.login.contexts security.kerberos.login.keytab security.kerberos.login.principal
security.kerberos.login.use-ticket-cache security.kerberos.relogin.period security.module.factory.classes
security.ssl.algorithms security.ssl.internal.cert.fingerprint security.ssl.internal.close-notify-flush-timeout
security.ssl.internal.enabled security.ssl.internal.handshake-timeout security.ssl.internal.key-password
security.ssl.internal.keystore security.ssl.internal.keystore-password security.ssl.internal.keystore-type
security.ssl.internal.session-cache-size security.ssl.internal.session-timeout security.ssl.internal.truststore
security.ssl.internal.truststore-password security.ssl.internal.truststore-type security.ssl.key-password
security.ssl.keystore security.ssl.keystore-password security.ssl.protocol security.ssl.provider
security.ssl.rest.authentication-enabled security.ssl.rest.cert.fingerprint security.ssl.rest.enabled
security.ssl.rest.key-password security.ssl.rest.keystore security.ssl.rest.keystore-password security.ssl.rest.keystore-type
security.ssl.rest.truststore security.ssl.rest.truststore-password security.ssl.rest.truststore-type
security.ssl.rest.verify-hostname security.ssl.truststore security.ssl.truststore-password security.ssl.verify-hostname
shuffle-service-factory.class sink.batch.max-size sink.committer.retries sink.flush-buffer.size sink.flush-buffer.timeout
sink.requests.max-buffered sink.requests.max-inflight slot.idle.timeout slot.request.max-interval slot.request.timeout
slotmanager.declare-needed-resource.delay slotmanager.max-total-resource.cpu slotmanager.max-total-resource.memory
slotmanager.min-total-resource.cpu slotmanager.min-total-resource.memory slotmanager.number-of-slots.max
slotmanager.number-of-slots.min slotmanager.redundant-taskmanager-num slotmanager.requirement-check.delay
slow-task-detector.check-interval slow-task-detector.execution-time.baseline-lower-bound
slow-task-detector.execution-time.baseline-multiplier slow-task-detector.execution-time.baseline-ratio
source.reader.close.timeout source.reader.element.queue.capacity state.backend.forst.block.blocksize
state.backend.forst.block.cache-size state.backend.forst.block.metadata-blocksize
state.backend.forst.bloom-filter.bits-per-key state.backend.forst.bloom-filter.block-based-mode state.backend.forst.cache.dir
state.backend.forst.cache.lru.access-before-promote state.backend.forst.cache.lru.promote-limit
state.backend.forst.cache.reserve-size state.backend.forst.cache.size-based-limit
state.backend.forst.compaction.filter.periodic-compaction-time
state.backend.forst.compaction.filter.query-time-after-num-entries state.backend.forst.compaction.level.max-size-level-base
state.backend.forst.compaction.level.target-file-size-base state.backend.forst.compaction.level.use-dynamic-size
state.backend.forst.compaction.style state.backend.forst.compression.per.level state.backend.forst.executor.inline-coordinator
state.backend.forst.executor.inline-write state.backend.forst.executor.read-io-parallelism
state.backend.forst.executor.write-io-parallelism state.backend.forst.files.open state.backend.forst.local-dir
state.backend.forst.log.dir state.backend.forst.log.file-num state.backend.forst.log.level
state.backend.forst.log.max-file-size state.backend.forst.memory.fixed-per-slot state.backend.forst.memory.fixed-per-tm
state.backend.forst.memory.high-prio-pool-ratio state.backend.forst.memory.managed
state.backend.forst.memory.partitioned-index-filters state.backend.forst.memory.write-buffer-ratio
state.backend.forst.metrics.actual-delayed-write-rate state.backend.forst.metrics.background-errors
state.backend.forst.metrics.block-cache-capacity state.backend.forst.metrics.block-cache-hit
state.backend.forst.metrics.block-cache-miss state.backend.forst.metrics.block-cache-pinned-usage
state.backend.forst.metrics.block-cache-usage state.backend.forst.metrics.bloom-filter-full-positive
state.backend.forst.metrics.bloom-filter-full-true-positive state.backend.forst.metrics.bloom-filter-useful
state.backend.forst.metrics.bytes-read state.backend.forst.metrics.bytes-written
state.backend.forst.metrics.column-family-as-variable state.backend.forst.metrics.compaction-pending
state.backend.forst.metrics.compaction-read-bytes state.backend.forst.metrics.compaction-write-bytes
state.backend.forst.metrics.cur-size-active-mem-table state.backend.forst.metrics.cur-size-all-mem-tables
state.backend.forst.metrics.estimate-live-data-size state.backend.forst.metrics.estimate-num-keys
state.backend.forst.metrics.estimate-pending-compaction-bytes state.backend.forst.metrics.estimate-table-readers-mem
state.backend.forst.metrics.is-write-stopped state.backend.forst.metrics.iter-bytes-read
state.backend.forst.metrics.live-sst-files-size state.backend.forst.metrics.mem-table-flush-pending
state.backend.forst.metrics.num-deletes-active-mem-table state.backend.forst.metrics.num-deletes-imm-mem-tables
state.backend.forst.metrics.num-entries-active-mem-table state.backend.forst.metrics.num-entries-imm-mem-tables
state.backend.forst.metrics.num-files-at-level state.backend.forst.metrics.num-immutable-mem-table
state.backend.forst.metrics.num-live-versions state.backend.forst.metrics.num-running-compactions
state.backend.forst.metrics.num-running-flushes state.backend.forst.metrics.num-snapshots
state.backend.forst.metrics.size-all-mem-tables state.backend.forst.metrics.stall-micros
state.backend.forst.metrics.total-sst-files-size state.backend.forst.options-factory state.backend.forst.primary-dir
state.backend.forst.rescaling.use-delete-files-in-range state.backend.forst.restore-overlap-fraction-threshold
state.backend.forst.sync.enforce-local state.backend.forst.thread.num state.backend.forst.timer-service.cache-size
state.backend.forst.timer-service.factory state.backend.forst.use-bloom-filter state.backend.forst.use-ingest-db-restore-mode
state.backend.forst.write-batch-size state.backend.forst.writebuffer.count state.backend.forst.writebuffer.number-to-merge
state.backend.forst.writebuffer.size state.backend.rocksdb.block.blocksize state.backend.rocksdb.block.cache-size
state.backend.rocksdb.block.metadata-blocksize state.backend.rocksdb.bloom-filter.bits-per-key
state.backend.rocksdb.bloom-filter.block-based-mode state.backend.rocksdb.checkpoint.transfer.thread.num
state.backend.rocksdb.compaction.filter.periodic-compaction-time
state.backend.rocksdb.compaction.filter.query-time-after-num-entries
state.backend.rocksdb.compaction.level.max-size-level-base state.backend.rocksdb.compaction.level.target-file-size-base
state.backend.rocksdb.compaction.level.use-dynamic-size state.backend.rocksdb.compaction.style
state.backend.rocksdb.compression.per.level state.backend.rocksdb.files.open
state.backend.rocksdb.incremental-restore-async-compact-after-rescale state.backend.rocksdb.localdir
state.backend.rocksdb.log.dir state.backend.rocksdb.log.file-num state.backend.rocksdb.log.level
state.backend.rocksdb.log.max-file-size state.backend.rocksdb.manual-compaction.max-auto-compactions
state.backend.rocksdb.manual-compaction.max-file-size-to-compact state.backend.rocksdb.manual-compaction.max-files-to-compact
state.backend.rocksdb.manual-compaction.max-output-file-size state.backend.rocksdb.manual-compaction.max-parallel-compactions
state.backend.rocksdb.manual-compaction.min-files-to-compact state.backend.rocksdb.manual-compaction.min-interval
state.backend.rocksdb.memory.fixed-per-slot state.backend.rocksdb.memory.fixed-per-tm
state.backend.rocksdb.memory.high-prio-pool-ratio state.backend.rocksdb.memory.managed
state.backend.rocksdb.memory.partitioned-index-filters state.backend.rocksdb.memory.write-buffer-ratio
state.backend.rocksdb.metrics.actual-delayed-write-rate state.backend.rocksdb.metrics.background-errors
state.backend.rocksdb.metrics.block-cache-capacity state.backend.rocksdb.metrics.block-cache-hit
state.backend.rocksdb.metrics.block-cache-miss state.backend.rocksdb.metrics.block-cache-pinned-usage
state.backend.rocksdb.metrics.block-cache-usage state.backend.rocksdb.metrics.bloom-filter-full-positive
state.backend.rocksdb.metrics.bloom-filter-full-true-positive state.backend.rocksdb.metrics.bloom-filter-useful
state.backend.rocksdb.metrics.bytes-read state.backend.rocksdb.metrics.bytes-written
state.backend.rocksdb.metrics.column-family-as-variable state.backend.rocksdb.metrics.compaction-pending
state.backend.rocksdb.metrics.compaction-read-bytes state.backend.rocksdb.metrics.compaction-write-bytes
state.backend.rocksdb.metrics.cur-size-active-mem-table state.backend.rocksdb.metrics.cur-size-all-mem-tables
state.backend.rocksdb.metrics.estimate-live-data-size state.backend.rocksdb.metrics.estimate-num-keys
state.backend.rocksdb.metrics.estimate-pending-compaction-bytes state.backend.rocksdb.metrics.estimate-table-readers-mem
state.backend.rocksdb.metrics.is-write-stopped state.backend.rocksdb.metrics.iter-bytes-read
state.backend.rocksdb.metrics.live-sst-files-size state.backend.rocksdb.metrics.mem-table-flush-pending
state.backend.rocksdb.metrics.num-deletes-active-mem-table state.backend.rocksdb.metrics.num-deletes-imm-mem-tables
state.backend.rocksdb.metrics.num-entries-active-mem-table state.backend.rocksdb.metrics.num-entries-imm-mem-tables
state.backend.rocksdb.metrics.num-files-at-level state.backend.rocksdb.metrics.num-immutable-mem-table
state.backend.rocksdb.metrics.num-live-versions state.backend.rocksdb.metrics.num-running-compactions
state.backend.rocksdb.metrics.num-running-flushes state.backend.rocksdb.metrics.num-snapshots
state.backend.rocksdb.metrics.size-all-mem-tables state.backend.rocksdb.metrics.stall-micros
state.backend.rocksdb.metrics.total-sst-files-size state.backend.rocksdb.options-factory
state.backend.rocksdb.predefined-options state.backend.rocksdb.rescaling.use-delete-files-in-range
state.backend.rocksdb.restore-overlap-fraction-threshold state.backend.rocksdb.thread.num
state.backend.rocksdb.timer-service.cache-size state.backend.rocksdb.timer-service.factory
state.backend.rocksdb.use-bloom-filter state.backend.rocksdb.use-ingest-db-restore-mode state.backend.rocksdb.write-batch-size
state.backend.rocksdb.writebuffer.count state.backend.rocksdb.writebuffer.number-to-merge
state.backend.rocksdb.writebuffer.size state.backend.type state.changelog.dstl.dfs.base-path
state.changelog.dstl.dfs.batch.persist-delay state.changelog.dstl.dfs.batch.persist-size-threshold
state.changelog.dstl.dfs.compression.enabled state.changelog.dstl.dfs.discard.num-threads
state.changelog.dstl.dfs.download.local-cache.idle-timeout-ms state.changelog.dstl.dfs.preemptive-persist-threshold
state.changelog.dstl.dfs.upload.buffer-size state.changelog.dstl.dfs.upload.max-attempts
state.changelog.dstl.dfs.upload.max-in-flight state.changelog.dstl.dfs.upload.next-attempt-delay
state.changelog.dstl.dfs.upload.num-threads state.changelog.dstl.dfs.upload.retry-policy
state.changelog.dstl.dfs.upload.timeout state.changelog.enabled state.changelog.max-failures-allowed
state.changelog.periodic-materialize.enabled state.changelog.periodic-materialize.interval state.changelog.storage
state.latency-track.history-size state.latency-track.keyed-state-enabled state.latency-track.sample-interval
state.latency-track.state-name-as-variable state.size-track.history-size state.size-track.keyed-state-enabled
state.size-track.sample-interval state.size-track.state-name-as-variable task.cancellation.interval task.cancellation.timeout
task.cancellation.timers.timeout taskmanager.bind-host taskmanager.collect-sink.port taskmanager.cpu.cores
taskmanager.data.bind-port taskmanager.data.port taskmanager.data.ssl.enabled taskmanager.debug.memory.log
taskmanager.debug.memory.log-interval taskmanager.host taskmanager.jvm-exit-on-oom taskmanager.load-balance.mode
taskmanager.log.path taskmanager.memory.flink.size taskmanager.memory.framework.heap.size
taskmanager.memory.framework.off-heap.batch-shuffle.size taskmanager.memory.framework.off-heap.size
taskmanager.memory.jvm-metaspace.size taskmanager.memory.jvm-overhead.fraction taskmanager.memory.jvm-overhead.max
taskmanager.memory.jvm-overhead.min taskmanager.memory.managed.consumer-weights taskmanager.memory.managed.fraction
taskmanager.memory.managed.size taskmanager.memory.min-segment-size taskmanager.memory.network.fraction
taskmanager.memory.network.max taskmanager.memory.network.min taskmanager.memory.process.size taskmanager.memory.segment-size
taskmanager.memory.starting-segment-size taskmanager.memory.task.heap.size taskmanager.memory.task.off-heap.size
taskmanager.network.adaptive-partitioner.enabled taskmanager.network.adaptive-partitioner.max-traverse-size
taskmanager.network.bind-policy taskmanager.network.compression.codec taskmanager.network.detailed-metrics
taskmanager.network.hybrid-shuffle.external-remote-tier-factory.class taskmanager.network.hybrid-shuffle.remote.path
taskmanager.network.memory.buffer-debloat.enabled taskmanager.network.memory.buffer-debloat.period
taskmanager.network.memory.buffer-debloat.samples taskmanager.network.memory.buffer-debloat.target
taskmanager.network.memory.buffer-debloat.threshold-percentages taskmanager.network.memory.buffers-request-timeout
taskmanager.network.memory.read-buffer.required-per-gate.max taskmanager.network.netty.client.connectTimeoutSec
taskmanager.network.netty.client.tcp.keepCount taskmanager.network.netty.client.tcp.keepIdleSec
taskmanager.network.netty.client.tcp.keepIntervalSec taskmanager.network.partition-request-timeout
taskmanager.network.request-backoff.initial taskmanager.network.request-backoff.max taskmanager.network.retries
taskmanager.network.sort-shuffle.min-buffers taskmanager.network.tcp-connection.enable-reuse-across-jobs
taskmanager.numberOfTaskSlots taskmanager.registration.timeout taskmanager.resource-id taskmanager.rpc.bind-port
taskmanager.rpc.port taskmanager.runtime.fs-timeout taskmanager.runtime.hashjoin-bloom-filters
taskmanager.runtime.large-record-handler taskmanager.runtime.max-fan taskmanager.runtime.sort-spilling-threshold
taskmanager.slot.timeout taskmanager.system-out.log.cache-upper-size taskmanager.system-out.log.thread-name.enabled
taskmanager.system-out.mode traces.checkpoint.span-detail-level traces.reporters user.artifacts.artifact-list
user.artifacts.base-dir user.artifacts.http-headers user.artifacts.raw-http-enabled web.access-control-allow-origin
web.adaptive-scheduler.rescale-history.size web.cancel.enable web.checkpoints.history web.exception-history-size web.history
web.log.path web.refresh-interval web.rescale.enable web.submit.enable web.timeout web.tmpdir web.upload.dir
zookeeper.sasl.disable zookeeper.sasl.login-context-name zookeeper.sasl.service-name
"""

_AUTOSCALER_NAMES = """
autoscaler.standalone.control-loop.interval autoscaler.standalone.control-loop.parallelism
autoscaler.standalone.event-handler.type autoscaler.standalone.fetcher.flink-cluster.host
autoscaler.standalone.fetcher.flink-cluster.port autoscaler.standalone.jdbc.event-handler.ttl
autoscaler.standalone.jdbc.password-env-variable autoscaler.standalone.jdbc.url autoscaler.standalone.jdbc.username
autoscaler.standalone.state-store.type job.autoscaler.backlog-processing.lag-threshold job.autoscaler.catch-up.duration
job.autoscaler.enabled job.autoscaler.excluded.periods job.autoscaler.flink.rest-client.timeout job.autoscaler.history.max.age
job.autoscaler.history.max.count job.autoscaler.memory.gc-pressure.threshold job.autoscaler.memory.heap-usage.threshold
job.autoscaler.memory.tuning.enabled job.autoscaler.memory.tuning.maximize-managed-memory
job.autoscaler.memory.tuning.overhead job.autoscaler.memory.tuning.scale-down-compensation.enabled
job.autoscaler.metrics.busy-time.aggregator job.autoscaler.metrics.custom-evaluators job.autoscaler.metrics.window
job.autoscaler.observed-scalability.coefficient-min job.autoscaler.observed-scalability.enabled
job.autoscaler.observed-scalability.min-observations job.autoscaler.observed-true-processing-rate.lag-threshold
job.autoscaler.observed-true-processing-rate.min-observations job.autoscaler.observed-true-processing-rate.switch-threshold
job.autoscaler.quota.cpu job.autoscaler.quota.memory job.autoscaler.restart.time job.autoscaler.restart.time-tracking.enabled
job.autoscaler.restart.time-tracking.limit job.autoscaler.scale-down.interval job.autoscaler.scale-down.max-factor
job.autoscaler.scale-up.max-factor job.autoscaler.scaling.custom-executors
job.autoscaler.scaling.effectiveness.detection.enabled job.autoscaler.scaling.effectiveness.threshold
job.autoscaler.scaling.enabled job.autoscaler.scaling.event.interval job.autoscaler.scaling.key-group.partitions.adjust.mode
job.autoscaler.scaling.parallelism-alignment.mode job.autoscaler.stabilization.interval
job.autoscaler.target.utilization.boundary job.autoscaler.utilization.max job.autoscaler.utilization.min
job.autoscaler.utilization.target job.autoscaler.vertex.exclude.ids job.autoscaler.vertex.max-parallelism
job.autoscaler.vertex.min-parallelism
"""

AUTOSCALER_KEYS = frozenset(_AUTOSCALER_NAMES.split())
"""Those of the autoscaler in Flink's Kubernetes operator, at the same commit as the decisions that the tests compare with."""

FLINK_KEYS = frozenset(_NAMES.split()) | AUTOSCALER_KEYS
"""Current names; old ones are in `flink_old_keys`."""

FLINK_PREFIXES = (
    "containerized.",
    "events.reporter.",
    "external-resource.",
    "flink.hadoop.",
    "fs.azure.",
    "fs.gs.",
    "fs.oss.",
    "fs.s3a.",
    "gs.",
    "high-availability.kubernetes.",
    "job.autoscaler.metrics.custom-evaluator.",
    "job.autoscaler.scaling.custom-executor.",
    "job.autoscaler.scaling.parallelism-alignment.mode.",
    "kubernetes.",
    "metrics.reporter.",
    "pipeline.global-job-parameters.",
    "pipeline.jobvertex-parallelism-overrides.",
    "python.",
    "s3.",
    "s3a.",
    "security.delegation.token.provider.",
    "sql-client.",
    "sql-gateway.",
    "table.",
    "taskmanager.memory.managed.consumer-weights.",
    "traces.reporter.",
    "user.artifacts.http-headers.",
    "yarn.",
)
"""Families whose keys hold a name that the user chose, or belong to a plug-in of Flink."""

"""Old names of Flink's configuration keys that Flink 2.3.0 still reads. Data, as `flink_keys`."""

from __future__ import annotations

_PAIRS = """
akka.ask.callstack>pekko.ask.callstack akka.ask.timeout>pekko.ask.timeout
akka.client-socket-worker-pool.pool-size-factor>pekko.client-socket-worker-pool.pool-size-factor
akka.client-socket-worker-pool.pool-size-max>pekko.client-socket-worker-pool.pool-size-max
akka.client-socket-worker-pool.pool-size-min>pekko.client-socket-worker-pool.pool-size-min akka.client.timeout>client.timeout
akka.fork-join-executor.parallelism-factor>pekko.fork-join-executor.parallelism-factor
akka.fork-join-executor.parallelism-max>pekko.fork-join-executor.parallelism-max
akka.fork-join-executor.parallelism-min>pekko.fork-join-executor.parallelism-min akka.framesize>pekko.framesize
akka.jvm-exit-on-fatal-error>pekko.jvm-exit-on-fatal-error akka.log.lifecycle.events>pekko.log.lifecycle.events
akka.lookup.timeout>pekko.lookup.timeout akka.retry-gate-closed-for>pekko.retry-gate-closed-for
akka.rpc.force-invocation-serialization>pekko.rpc.force-invocation-serialization
akka.server-socket-worker-pool.pool-size-factor>pekko.server-socket-worker-pool.pool-size-factor
akka.server-socket-worker-pool.pool-size-max>pekko.server-socket-worker-pool.pool-size-max
akka.server-socket-worker-pool.pool-size-min>pekko.server-socket-worker-pool.pool-size-min akka.ssl.enabled>pekko.ssl.enabled
akka.startup-timeout>pekko.startup-timeout akka.tcp.timeout>pekko.tcp.timeout akka.throughput>pekko.throughput
classloader.parent-first-patterns>classloader.parent-first-patterns.default cleanup-strategy>cleanup-strategy.type
dstl.dfs.base-path>state.changelog.dstl.dfs.base-path
dstl.dfs.batch.persist-delay>state.changelog.dstl.dfs.batch.persist-delay
dstl.dfs.batch.persist-size-threshold>state.changelog.dstl.dfs.batch.persist-size-threshold
dstl.dfs.compression.enabled>state.changelog.dstl.dfs.compression.enabled
dstl.dfs.discard.num-threads>state.changelog.dstl.dfs.discard.num-threads
dstl.dfs.download.local-cache.idle-timeout-ms>state.changelog.dstl.dfs.download.local-cache.idle-timeout-ms
dstl.dfs.preemptive-persist-threshold>state.changelog.dstl.dfs.preemptive-persist-threshold
dstl.dfs.upload.buffer-size>state.changelog.dstl.dfs.upload.buffer-size
dstl.dfs.upload.max-attempts>state.changelog.dstl.dfs.upload.max-attempts
dstl.dfs.upload.max-in-flight>state.changelog.dstl.dfs.upload.max-in-flight
dstl.dfs.upload.next-attempt-delay>state.changelog.dstl.dfs.upload.next-attempt-delay
dstl.dfs.upload.num-threads>state.changelog.dstl.dfs.upload.num-threads
dstl.dfs.upload.retry-policy>state.changelog.dstl.dfs.upload.retry-policy
dstl.dfs.upload.timeout>state.changelog.dstl.dfs.upload.timeout env.java.opts>env.java.opts.all
execution.allow-client-job-configurations>execution.program-config.enabled
execution.buffer-timeout>execution.buffer-timeout.interval
execution.checkpointing.alignment-timeout>execution.checkpointing.aligned-checkpoint-timeout
execution.checkpointing.approximate-local-recovery>execution.state-recovery.approximate-local-recovery
execution.checkpointing.checkpoints-after-tasks-finish.enabled>execution.checkpointing.checkpoints-after-tasks-finish
execution.checkpointing.recover-without-channel-state.checkpoint-id>execution.state-recovery.without-channel-state.checkpoint-id
execution.checkpointing.unaligned>execution.checkpointing.unaligned.enabled
execution.savepoint-restore-mode>execution.state-recovery.claim-mode
execution.savepoint.ignore-unclaimed-state>execution.state-recovery.ignore-unclaimed-state
execution.savepoint.path>execution.state-recovery.path
high-availability.zookeeper.path.jobgraphs>high-availability.zookeeper.path.execution-plans
high-availability.zookeeper.path.namespace>high-availability.cluster-id
high-availability.zookeeper.storageDir>high-availability.storageDir high-availability>high-availability.type
job-manager.max-attempts-history-size>jobmanager.execution.attempts-history-size
jobmanager.adaptive-batch-scheduler.avg-data-volume-per-task>execution.batch.adaptive.auto-parallelism.avg-data-volume-per-task
jobmanager.adaptive-batch-scheduler.default-source-parallelism>execution.batch.adaptive.auto-parallelism.default-source-parallelism
jobmanager.adaptive-batch-scheduler.max-parallelism>execution.batch.adaptive.auto-parallelism.max-parallelism
jobmanager.adaptive-batch-scheduler.min-parallelism>execution.batch.adaptive.auto-parallelism.min-parallelism
jobmanager.adaptive-batch-scheduler.speculative.block-slow-node-duration>execution.batch.speculative.block-slow-node-duration
jobmanager.adaptive-batch-scheduler.speculative.enabled>execution.batch.speculative.enabled
jobmanager.adaptive-batch-scheduler.speculative.max-concurrent-executions>execution.batch.speculative.max-concurrent-executions
jobmanager.web.access-control-allow-origin>web.access-control-allow-origin jobmanager.web.address>rest.bind-address
jobmanager.web.checkpoints.history>web.checkpoints.history jobmanager.web.history>web.history
jobmanager.web.log.path>web.log.path jobmanager.web.port>rest.bind-port jobmanager.web.refresh-interval>web.refresh-interval
jobmanager.web.submit.enable>web.submit.enable jobmanager.web.tmpdir>web.tmpdir jobmanager.web.upload.dir>web.upload.dir
library-cache-manager.cleanup.interval>blob.service.cleanup.interval
local.number-taskmanager>minicluster.number-of-taskmanagers metrics.scope.jm.job>metrics.scope.jm-job
metrics.scope.tm.job>metrics.scope.tm-job pipeline.operator-chaining>pipeline.operator-chaining.enabled
query.client.network-threads>queryable-state.client.network-threads
query.proxy.network-threads>queryable-state.proxy.network-threads query.proxy.ports>queryable-state.proxy.ports
query.proxy.query-threads>queryable-state.proxy.query-threads
query.server.network-threads>queryable-state.server.network-threads query.server.ports>queryable-state.server.ports
query.server.query-threads>queryable-state.server.query-threads recovery.jobmanager.port>high-availability.jobmanager.port
recovery.mode>high-availability.type
recovery.zookeeper.client.connection-timeout>high-availability.zookeeper.client.connection-timeout
recovery.zookeeper.client.max-retry-attempts>high-availability.zookeeper.client.max-retry-attempts
recovery.zookeeper.client.retry-wait>high-availability.zookeeper.client.retry-wait
recovery.zookeeper.client.session-timeout>high-availability.zookeeper.client.session-timeout
recovery.zookeeper.path.jobgraphs>high-availability.zookeeper.path.execution-plans
recovery.zookeeper.path.namespace>high-availability.cluster-id
recovery.zookeeper.path.root>high-availability.zookeeper.path.root
recovery.zookeeper.quorum>high-availability.zookeeper.quorum recovery.zookeeper.storageDir>high-availability.storageDir
restart-strategy>restart-strategy.type savepoints.state.backend.fs.dir>execution.checkpointing.savepoint-dir
security.kerberos.fetch.delegation-token>security.delegation.tokens.enabled
security.kerberos.tokens.renewal.retry.backoff>security.delegation.tokens.renewal.retry.backoff
security.kerberos.tokens.renewal.time-ratio>security.delegation.tokens.renewal.time-ratio
security.keytab>security.kerberos.login.keytab security.principal>security.kerberos.login.principal
security.ssl.close-notify-flush-timeout>security.ssl.internal.close-notify-flush-timeout
security.ssl.handshake-timeout>security.ssl.internal.handshake-timeout
security.ssl.session-cache-size>security.ssl.internal.session-cache-size
security.ssl.session-timeout>security.ssl.internal.session-timeout
slotmanager.taskmanager-timeout>resourcemanager.taskmanager-timeout state.backend.changelog.enabled>state.changelog.enabled
state.backend.changelog.max-failures-allowed>state.changelog.max-failures-allowed
state.backend.changelog.periodic-materialize.enabled>state.changelog.periodic-materialize.enabled
state.backend.changelog.periodic-materialize.interval>state.changelog.periodic-materialize.interval
state.backend.changelog.storage>state.changelog.storage state.backend.fs.checkpointdir>execution.checkpointing.dir
state.backend.fs.memory-threshold>execution.checkpointing.data-inline-threshold
state.backend.fs.write-buffer-size>execution.checkpointing.write-buffer-size
state.backend.incremental>execution.checkpointing.incremental
state.backend.latency-track.history-size>state.latency-track.history-size
state.backend.latency-track.keyed-state-enabled>state.latency-track.keyed-state-enabled
state.backend.latency-track.sample-interval>state.latency-track.sample-interval
state.backend.latency-track.state-name-as-variable>state.latency-track.state-name-as-variable
state.backend.local-recovery>execution.checkpointing.local-backup.enabled state.backend>state.backend.type
state.checkpoint-storage>execution.checkpointing.storage
state.checkpoint.cleaner.parallel-mode>execution.checkpointing.cleaner.parallel-mode
state.checkpoints.create-subdir>execution.checkpointing.create-subdir state.checkpoints.dir>execution.checkpointing.dir
state.checkpoints.num-retained>execution.checkpointing.num-retained state.savepoints.dir>execution.checkpointing.savepoint-dir
state.storage.fs.memory-threshold>execution.checkpointing.data-inline-threshold
state.storage.fs.write-buffer-size>execution.checkpointing.write-buffer-size
task.cancellation-interval>task.cancellation.interval
taskmanager.debug.memory.logIntervalMs>taskmanager.debug.memory.log-interval
taskmanager.debug.memory.startLogThread>taskmanager.debug.memory.log
taskmanager.maxRegistrationDuration>taskmanager.registration.timeout taskmanager.memory.size>taskmanager.memory.managed.size
taskmanager.net.client.connectTimeoutSec>taskmanager.network.netty.client.connectTimeoutSec
taskmanager.net.request-backoff.initial>taskmanager.network.request-backoff.initial
taskmanager.net.request-backoff.max>taskmanager.network.request-backoff.max
taskmanager.network.memory.exclusive-buffers-request-timeout-ms>taskmanager.network.memory.buffers-request-timeout
taskmanager.network.memory.fraction>taskmanager.memory.network.fraction
taskmanager.network.memory.max>taskmanager.memory.network.max taskmanager.network.memory.min>taskmanager.memory.network.min
taskmanager.runtime.fs_timeout>taskmanager.runtime.fs-timeout
taskmanager.state.local.root-dirs>execution.checkpointing.local-backup.dirs taskmanager.tmp.dirs>io.tmp.dirs
timerservice.exceptional.shutdown.timeout>task.cancellation.timers.timeout web.address>rest.bind-address
web.port>rest.bind-port yarn.security.kerberos.additionalFileSystems>security.kerberos.access.hadoopFileSystems
"""

OLD_KEYS = dict(pair.split(">", 1) for pair in _PAIRS.split())
"""Old name -> current name. An old name that is also the current name of another option is not here."""

// No include guard: this file is the settings table, included where rows are needed with
// WEFT_SETTING(id, name, default, unit, audience, meaning) defined. Sorted by subject, as the
// categories of MPI_T are ranges of it. Audience: `user` has a choice that a program or a cluster
// asks for; `expert` has a default that suits almost all, for measuring and for Weft's tests.

// base
WEFT_SETTING(log, "LOG", "warn", choice, user,
             "error|warn|info|debug: which lines go to standard error")
WEFT_SETTING(stats, "STATS", "0", flag, user,
             "print at the end what went to and came from each peer (weft-info --attach PID while "
             "the process runs)")
WEFT_SETTING(trace, "TRACE", "", text, user,
             "a file for ui.perfetto.dev: when each call began and how long it took; each process "
             "writes its own, with its rank before the extension")
WEFT_SETTING(settings_file, "SETTINGS_FILE", "", text, user,
             "a file on each host with settings, a line WEFT_NAME=value for each, as weft-info "
             "--tune prints them; the environment's come first")
WEFT_SETTING(hang_report_ms, "HANG_REPORT_MS", "2000", ms, user,
             "weftrun reports why a job stands still once all its ranks have waited for so long in "
             "calls of MPI that cannot end; 0: never")
WEFT_SETTING(initial_errhandler, "INITIAL_ERRHANDLER", "mpi_errors_are_fatal", choice, user,
             "mpi_errors_are_fatal|mpi_errors_abort|mpi_errors_return: the error handler that "
             "MPI_COMM_WORLD and MPI_COMM_SELF have at first")
WEFT_SETTING(
    check, "CHECK", "off", choice, user,
    "off|report|abort: what an MPI program does wrong is reported, or ends the job at once "
    "(weftrun --check, weft-check)")
// waiting
WEFT_SETTING(spin_us, "SPIN_US", "50", us, expert,
             "how long a wait polls before it yields, when every process has a core of its own")
WEFT_SETTING(yield_us, "YIELD_US", "2000", us, expert,
             "how long a wait polls, between polls leaving its core to others where they need it, "
             "before it sleeps until its doorbell is rung")
WEFT_SETTING(progress, "PROGRESS", "calls", choice, user,
             "calls|thread: messages and nonblocking collectives of MPI progress only in calls of "
             "MPI, or by a thread, too, while the program computes")
// job
WEFT_SETTING(start_timeout_ms, "START_TIMEOUT_MS", "60000", ms, user,
             "how long a process waits for the others to start")
WEFT_SETTING(
    peer_timeout_ms, "PEER_TIMEOUT_MS", "60000", ms, user,
    "how long a peer may be unreachable before operations with it end in an error; one that "
    "has ended is known sooner")
WEFT_SETTING(launch, "LAUNCH", "ssh -oBatchMode=yes {host}", text, user,
             "the command with which weftrun starts its agent on another host, as its last words")
// fabric and transport
WEFT_SETTING(fabric, "FABRIC", "shm,verbs,tcp", text, user,
             "the fabrics that may be used; two processes take the first that both have, in this "
             "order. Without shm, the processes of a host are as if on different ones. ofi, for "
             "networks that only libfabric knows, is taken where it is named")
WEFT_SETTING(ofi_provider, "OFI_PROVIDER", "net,tcp", text, user,
             "libfabric's provider for the ofi fabric (fi_info -l lists them); of several the "
             "first that is there")
WEFT_SETTING(
    interface, "INTERFACE", "", text, user,
    "the network interface of the tcp and ofi fabrics: its name (with providers for devices "
    "libfabric's domain), its address or the network's, as 10.1.0.0/16; empty: that of "
    "the default route, else one that is not of containers")
WEFT_SETTING(device, "DEVICE", "", text, user,
             "the RDMA device of the verbs fabric, name or name:port (weft-info lists them); "
             "empty: the active one nearest to the process's cores. Of several, with commas "
             "between, Nodes use all at once for long transfers, and jobs the first that is usable")
WEFT_SETTING(traffic_class, "TRAFFIC_CLASS", "0", count, user,
             "the traffic class of packets over the fabrics verbs and tcp, 0 to 255: its upper six "
             "bits are the DSCP, by which switches tell what is lossless, as RoCE often is (DSCP "
             "26: 104); 0: the system's")
WEFT_SETTING(verbs_qps, "VERBS_QPS", "4", count, expert,
             "queue pairs that a Node may have with a peer over one RDMA device, 1 to 16: one for "
             "each thread that posts, made at its first post")
WEFT_SETTING(verbs_cache_bytes, "VERBS_CACHE_BYTES", "1G", bytes, expert,
             "memory of the program that stays registered with the RDMA device after its use; 0: "
             "none")
WEFT_SETTING(verbs_atomics, "VERBS_ATOMICS", "auto", choice, expert,
             "auto|device|owner: how cas and fetch_add of ranks of other hosts on this process's "
             "memory are done; auto: by its RDMA device, if that is atomic with processors too; "
             "device: always by it, for words that only ranks of other hosts change (also over "
             "libfabric's cxi); owner: by this process")
WEFT_SETTING(ring_min_bytes, "RING_MIN_BYTES", "64K", bytes, expert,
             "a lane's ring at its first message")
WEFT_SETTING(ring_max_bytes, "RING_MAX_BYTES", "2M", bytes, expert,
             "a lane's ring once its writer has waited for room")
WEFT_SETTING(lane_memory_bytes, "LANE_MEMORY_BYTES", "64G", bytes, expert,
             "the most that the rings of a process's exchanges may take; costs nothing until used")
WEFT_SETTING(
    eager_max_bytes, "EAGER_MAX_BYTES", "8K", bytes, expert,
    "the longest message that travels inside the ring (at most RING_MAX_BYTES); a longer one "
    "is a rendezvous (RTS, CTS, FIN) and is copied straight into the receiver's buffer")
WEFT_SETTING(remote_eager_max_bytes, "REMOTE_EAGER_MAX_BYTES", "0", bytes, expert,
             "as EAGER_MAX_BYTES, between hosts; 0: 32K over verbs, 64K over tcp and ofi")
WEFT_SETTING(exchange_staging_bytes, "EXCHANGE_STAGING_BYTES", "256M", bytes, expert,
             "the most memory that long blocks of one exchange thread may take while they wait for "
             "their receivers to read them")
WEFT_SETTING(unexpected_max_bytes, "UNEXPECTED_MAX_BYTES", "4M", bytes, expert,
             "eager data of one peer that may wait unmatched, beside what its ring holds by then; "
             "beyond it that peer sends RTS only")
WEFT_SETTING(direct_copy, "DIRECT_COPY", "1", flag, expert,
             "copy between processes with process_vm_readv and process_vm_writev")
// collectives
WEFT_SETTING(coll_algorithms, "COLL_ALGORITHMS", "", picks, user,
             "barrier=shm|two_level|dissemination,"
             "bcast=shm|two_level|binomial|scatter_allgather|chain|pipeline|two_trees|native,"
             "reduce=shm|two_level|circulant|binomial|rabenseifner,"
             "allreduce=shm|two_level|circulant|recursive_doubling|rabenseifner|ring,"
             "gather=shm|two_level|binomial|linear,scatter=shm|two_level|binomial|linear,"
             "allgather=shm|two_level|circulant|ring,alltoall=shm|two_level|bruck|pairwise,"
             "reduce_scatter=shm|two_level|circulant|pairwise|binomial,"
             "scan=shm|two_level|recursive_doubling|pairwise,reproducible: one or more of these, "
             "instead of what the table says (weft-info --collectives); reproducible: sums are "
             "the same bits wherever the ranks are; by size as bcast=binomial@8:16K+chain (to 8 "
             "members and 16 KiB, else chain), as weft-info --tune prints them")
WEFT_SETTING(coll_crowded, "COLL_CROWDED", "auto", choice, expert,
             "auto|yes|no: whether collectives inside a host count context switches (more "
             "processes than cores) or polling; auto: by the number of processes and cores")
WEFT_SETTING(coll_direct_min_bytes, "COLL_DIRECT_MIN_BYTES", "24K", bytes, expert,
             "collectives inside a host copy blocks from this size on straight between the users' "
             "buffers (if DIRECT_COPY allows)")
// allreduce by switches
WEFT_SETTING(offload, "OFFLOAD", "off", choice, user,
             "off|node|socket: whether collectives go through switches that compute, with one "
             "leader for the processes of a node, or of a socket")
WEFT_SETTING(offload_switch, "OFFLOAD_SWITCH", "", text, user,
             "ADDRESS:PORT, [IPV6]:PORT or NAME:PORT of the switch that this node hangs on; or the "
             "path of a file, with a /, that says where all ranks are: lines RANK[-RANK] NODE "
             "SOCKET SWITCH:PORT")
WEFT_SETTING(offload_when, "OFFLOAD_WHEN", "auto", lengths, user,
             "auto|force: auto: where both ways' times say that the switch is faster, and for "
             "floating-point MPI_Allreduces where a model says so (weft-offload simulate); as "
             "8-4K: MPI_Allreduces of these lengths in bytes, as weft-info --tune prints them, "
             "and MPI_Barrier, which has 1; force: always, of any length")
WEFT_SETTING(offload_float, "OFFLOAD_FLOAT", "ordered", choice, user,
             "ordered|arrival|fixed: how switches add floating-point numbers: in one order, so "
             "that results repeat bit for bit; as they come; float as integers, for switches that "
             "add no others")
WEFT_SETTING(offload_timeout_ms, "OFFLOAD_TIMEOUT_MS", "1000", ms, expert,
             "how long a silent switch is waited for before the hosts compute themselves")

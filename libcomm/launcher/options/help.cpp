#include "launcher/options.hpp"

namespace weft::weftrun {

std::string help_text() {
  return R"(weftrun: starts a program as a job of several processes on this machine or several

  weftrun [options] program [arguments] [: [options] program [arguments]]...

After a colon follows another program, whose processes have the next ranks of the same job; -n,
--env and -x are of each program, all other options of the job. The names that Open MPI's, MPICH's
and Slurm's launchers have for these options are taken as well (docs/use/cluster.md lists them);
long names may have one dash, as -np.

Processes:
  -n, -np N               number of processes (default 1; with hosts: one for every slot)
  --wdir FOLDER           where the processes start (default: here; also -wd)
  --path FOLDERS          where programs are looked for before PATH
  --prefix FOLDER         weftrun on other hosts is FOLDER/bin/weftrun, and FOLDER/bin and
                          FOLDER/lib come first in PATH and LD_LIBRARY_PATH

Hosts (docs/use/cluster.md tells more):
  --hosts H1,H2:SLOTS     hosts, and how many processes each takes; without any number all get the
                          same share (also -H, --host)
  --hostfile FILE         the same from a file, a host a line: NAME, NAME:SLOTS, NAME slots=SLOTS
                          (also -machinefile, -f)
  -ppn, -N N              N processes on each host
  --oversubscribe         more processes than slots are no error
  --nolocal               none on this machine
  --launch 'CMD {host}'   what starts a command on a host; default: WEFT_LAUNCH, else ssh
  --agent PATH            weftrun on the hosts (default: the path it has here)
  --address A             the address or interface at which hosts reach this machine (default:
                          each finds out; also -iface)
  --port P                a fixed port for that, for firewalls (default: any)

Binding:
  --bind UNIT[:N][:if-supported]
                          core: every process gets an equal share of the cores of its host, or N of
                          them; hwthread, numa, socket, l1cache, l2cache, l3cache: of those; none:
                          the scheduler decides. Default: core if there are enough cores, else none.
                          if-supported: where a host has no such units, nothing is said (also
                          --bind-to)
  --map-by UNIT[:PE=N]    node: each rank on the next host. socket, numa, l1cache, l2cache, l3cache:
                          hosts are filled in order, and on each its ranks go to one unit after
                          another; slot, core, hwthread: to all in order. PE=N binds each process to
                          N cores
  --map-by ppr:N:UNIT     N processes for each node, socket, numa, l3cache, core, ... of a host
  --cpu-set 0,2-3         only these cores of each host, by their numbers there
  --use-hwthread-cpus     hardware threads count as cores
  --report-bindings       says of every rank where it is bound

Output:
  --tag-output            puts the rank before every line of output, "[3] ..." (also -l)
  --output-filename PATH[:nocopy]
                          also writes PATH/1/rank.N/stdout and stderr on this machine; nocopy: only
                          these
  --merge-stderr-to-stdout
                          what processes write to standard error goes to standard output
  --display-map           says which ranks run on which host before they start
  --stats                 prints at the end what each process sent to and received from each peer
  --trace FILE            writes when which call took how long, for ui.perfetto.dev: FILE with the
                          rank before its extension
  --check, --check=abort  reports what an MPI program does wrong (weft-check); exit status 66 if it
                          does; abort: ends the job at the first report
  --profile               prints at the end what the calls of an MPI program have cost
                          (weft-profile)
  --profile-out PREFIX    the same, and writes PREFIX.json and PREFIX.svg, who sent what to whom
  --quiet, -q             does not say which options are ignored
  --verbose               says it even of those that mean nothing here

Environment:
  --env NAME=VALUE        sets a variable for the processes; NAME alone passes it on (also -x,
                          -env NAME VALUE; -genv NAME VALUE is for all programs)

Ends:
  --timeout S             ends the job after S seconds, with exit status 124
  --on-death kill|continue
                          when a process dies, exits with an error, or leaves the job without
                          finalizing: kill ends the others within a second (default), continue
                          lets them go on
  --restart N             starts the job again, up to N times, when a process is killed, leaves the
                          job without finalizing or cannot be reached; not when one exits with an
                          error in good order. Of use where the program goes on from a checkpoint
  --initial-errhandler mpi_errors_abort|mpi_errors_are_fatal|mpi_errors_return
                          the error handler that MPI_COMM_WORLD and MPI_COMM_SELF have at first
  --core                  processes may leave core files, as by ulimit -c unlimited, and it is said
                          where

Other:
  --name-server H:P/KEY   where MPI programs publish names and look them up (default: this weftrun
                          has its own)
  --serve-names           starts nothing, but serves names to several jobs: prints what
                          --name-server takes, and ends with SIGTERM or SIGINT (--port, --address)
  --help, --version
  --allow-run-as-root, -genvall, --mca NAME VALUE
                          accepted because scripts for other launchers have them

Output is forwarded in whole lines, the lines of two processes never mix. Standard input goes to
rank 0. SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 go to all processes and to what they
have started; a second SIGINT, SIGTERM or SIGQUIT kills them. None outlives weftrun, whatever ends
it. After SIGURG it says what the ranks wait for in MPI, as it does by itself once none can go on.

The exit status is that of the rank that failed first (128 + signal if a signal killed it), 1 if
output could not be written, else 0.
)";
}

}  // namespace weft::weftrun

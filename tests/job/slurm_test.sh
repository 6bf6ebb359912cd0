#!/bin/sh
# A Slurm cluster of this machine alone starts jobs: through PMI-2, and without a server.
#   slurm_test.sh JOB_PROBE
# Its daemons run in a private folder, with ports and a munge socket of their own, and end with the
# test. Skipped, with the reason, where they cannot be started.
set -u
probe=$1
skip() { echo "skipped: $*"; exit 77; }
fail() { echo "FAILED: $*"; exit 1; }
PATH=$PATH:/usr/sbin:/sbin
for command in munged slurmctld slurmd srun; do
  command -v $command > /dev/null || skip "there is no $command"
done
[ "$(id -u)" = 0 ] || skip "slurmd starts ranks of any user, and so must run as root"

# Munge takes no folder that others may write to, as those in /tmp are.
work=$(mktemp -d "$PWD/slurm.XXXXXX")
munged= slurmctld= slurmd=
# Slurm's daemons end first, as they ask munged until then; one that stays is killed. A step's daemon
# would go on telling the controller of its end for minutes.
end() {
  tries=0
  while [ -n "$slurmctld" ] && [ -n "$(timeout 5 squeue -h)" ] && [ $tries -lt 50 ]; do
    tries=$((tries + 1))
    sleep 0.1
  done 2> /dev/null
  for pid in $slurmd $slurmctld $munged; do
    kill "$pid" 2> /dev/null
    wait "$pid" 2> /dev/null
  done
  for step in $(pgrep -x slurmstepd); do
    ! grep -qF "$work" "/proc/$step/environ" || kill -9 "$step"
  done 2> /dev/null
  rm -rf "$work"
}
daemon() { exec timeout --foreground --kill-after=10 1000 "$@"; }
trap end EXIT
trap 'exit 1' INT TERM HUP
mkdir "$work/state" "$work/spool"
chmod 0755 "$work"
head -c 1024 /dev/urandom > "$work/key"
chmod 0400 "$work/key"
daemon munged --foreground --force --key-file="$work/key" --socket="$work/munge" \
  --pid-file="$work/munge.pid" --log-file="$work/munge.log" --seed-file="$work/seed" \
  > "$work/munge.out" 2>&1 &
munged=$!

host=$(hostname -s)
port=$((20000 + $$ % 20000))
cat > "$work/slurm.conf" << END
ClusterName=weft
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
AuthType=auth/munge
AuthInfo=socket=$work/munge
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
END
export SLURM_CONF="$work/slurm.conf"
printf "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\nCgroupMountpoint=%s/cgroup\n" "$work" > "$work/cgroup.conf"
daemon slurmctld -D > "$work/slurmctld.log" 2>&1 &
slurmctld=$!
daemon slurmd -D -N "$host" > "$work/slurmd.log" 2>&1 &
slurmd=$!

tries=0
until [ "$(sinfo -h -o %t 2> /dev/null)" = idle ]; do
  tries=$((tries + 1))
  kill -0 $munged && kill -0 $slurmctld && kill -0 $slurmd && [ $tries -lt 60 ] || {
    tail -n 5 "$work"/*.log
    skip "the daemons of Slurm cannot be started here"
  }
  sleep 0.5
done 2> /dev/null

run() { timeout 60 srun --overcommit -n "$@"; }
out=$(run 3 --mpi=pmi2 "$probe" exchange 2>&1) || fail "srun --mpi=pmi2: $out"
for rank in 0 1 2; do
  echo "$out" | grep -qx "rank $rank of 3 by pmi2" || fail "srun --mpi=pmi2 writes $out"
done
out=$(run 2 --mpi=none "$probe" exchange 2>&1) && fail "without a server there are jobs of one: $out"
echo "$out" | grep -q "use srun --mpi=pmix or srun --mpi=pmi2" || fail "srun --mpi=none writes $out"
out=$(run 1 --mpi=none "$probe" exchange 2>&1) || fail "srun of one process: $out"
out=$(run 3 --mpi=pmi2 "$probe" outlive 1 2>&1) && fail "a killed rank is no failure: $out"
for rank in 0 1; do
  echo "$out" | grep -qx "rank $rank goes on" || fail "one rank of srun --mpi=pmi2 is killed: $out"
done
out=$(run 3 --mpi=pmi2 --kill-on-bad-exit=1 "$probe" outlive 30 2>&1) && fail "the same: $out"
! echo "$out" | grep -q "goes on" || fail "--kill-on-bad-exit=1 ends all: $out"
echo "Slurm starts jobs"

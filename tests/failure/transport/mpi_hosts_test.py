"""Two hosts, two ranks each, Open MPI over TCP; one host is cut off in the middle of a backward of the block, and while plain messages
flow: the ranks on both sides say whom they lost.

usage: mpi_hosts_test.py MPI_RANKS
The hosts are network namespaces of this machine, joined by a pair of virtual interfaces, each with a host name of its own.
Needs root and iproute2; ends with 77, skipped, where it may not make namespaces.
"""
import ctypes
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time

TIMEOUT = 2  # seconds without a sign of life
PATIENCE = 40
HOSTS = ("samebits-a", "samebits-b")
ADDRESSES = ("10.213.7.1", "10.213.7.2")


def ip(*words, check=True):
    return subprocess.run(["ip", *words], check=check, capture_output=True, text=True)


def make_hosts():
    for host in HOSTS:
        ip("netns", "del", host, check=False)
        ip("netns", "add", host)
        ip("-n", host, "link", "set", "lo", "up")
    ip("link", "add", "sbveth0", "netns", HOSTS[0], "type", "veth", "peer", "name", "sbveth1", "netns", HOSTS[1])
    for i, host in enumerate(HOSTS):
        ip("-n", host, "addr", "add", f"{ADDRESSES[i]}/24", "dev", f"sbveth{i}")
        ip("-n", host, "link", "set", f"sbveth{i}", "up")


def on_host(index):
    return ["ip", "netns", "exec", HOSTS[index], "unshare", "-u", "sh", "-c", f'hostname {HOSTS[index]}; exec "$@"', "sh"]


def write_agent(folder):
    """What mpirun calls in place of ssh: AGENT [options] ADDRESS command..."""
    path = os.path.join(folder, "agent")
    with open(path, "w") as file:
        file.write('#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\nshift\n'
                   f'exec ip netns exec {HOSTS[1]} unshare -u sh -c "hostname {HOSTS[1]}; $*"\n')
    os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
    return path


def adopt_orphans():
    """What launchers leave behind becomes ours to reap."""
    pr_set_child_subreaper = 36
    ctypes.CDLL(None).prctl(pr_set_child_subreaper, 1, 0, 0, 0)


def reap():
    until = time.monotonic() + 5
    while time.monotonic() < until:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.02)
        except ChildProcessError:
            return


def wait_for(names, folder, seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if names <= set(os.listdir(folder)):
            return True
        time.sleep(0.05)
    return False


def cut_off(binary, what):
    """Starts four ranks that do `what`, cuts the link once all have begun, and ends with a line where a rank does not speak as it should."""
    with tempfile.TemporaryDirectory() as folder:
        process = None
        try:
            command = [*on_host(0), "mpirun", "--allow-run-as-root", "--oversubscribe", "--enable-recovery", "-np", "4",
                       "--host", ",".join(f"{address}:2" for address in ADDRESSES), "--map-by", "node",
                       "--mca", "plm_rsh_agent", write_agent(folder), "--mca", "btl", "tcp,self",
                       "--mca", "btl_tcp_if_include", "10.213.7.0/24", "--mca", "oob_tcp_if_include", "10.213.7.0/24",
                       "--mca", "mpi_yield_when_idle", "1", binary, folder, str(TIMEOUT), what]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
            if not wait_for({f"begun.{r}" for r in range(4)}, folder, PATIENCE):
                os.killpg(process.pid, signal.SIGKILL)
                sys.exit(f"FAILED: {what}: the ranks did not begin: {sorted(os.listdir(folder))}\n{process.communicate()[0]}")
            ip("-n", HOSTS[0], "link", "set", "sbveth0", "down")
            begun = time.monotonic()
            spoke = wait_for({str(r) for r in range(4)}, folder, PATIENCE)
            seconds = time.monotonic() - begun
            time.sleep(0.1)
            results = {}
            for r in range(4):
                path = os.path.join(folder, str(r))
                results[r] = open(path).read().strip() if os.path.exists(path) else "nothing"
            if not spoke:
                sys.exit(f"FAILED: {what}: after {seconds:.1f} s ranks say {results}")
            for r, text in results.items():
                # Ranks alternate between the hosts; a rank loses one of the other host.
                other = [q for q in range(4) if q % 2 != r % 2]
                if not text.startswith("3 ") or not any(f"rank {q} (" in text for q in other):
                    sys.exit(f"FAILED: {what}: rank {r} ends with: {text}")
            print(f"{what}, cut off: all four ranks spoke after {seconds:.1f} s: {results[0]}")
        finally:
            subprocess.run(["pkill", "-KILL", "-f", folder], check=False)
            if process is not None:
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                process.communicate()
            reap()


def main():
    binary = sys.argv[1]
    adopt_orphans()
    for what in ("backward", "goes-on"):
        try:
            make_hosts()
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"skipped: no network namespaces here ({getattr(error, 'stderr', None) or error})")
            sys.exit(77)
        try:
            cut_off(binary, what)
        finally:
            for host in HOSTS:
                ip("netns", "del", host, check=False)
    print("ok")


if __name__ == "__main__":
    main()

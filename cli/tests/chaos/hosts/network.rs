//! Hosts that are network namespaces, each on a link of its own to a router that can drop what one sends to another.
//!
//! All of it lives in a network, mounts and processes that only the test has: names clash with nobody's, and when the
//! test ends, however it ends, the system takes everything away.

use std::env;
use std::fmt;
use std::fs;
use std::future::Future;
use std::process::Command;

use tempfile::TempDir;
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

/// Set for a test that runs in a network of its own: where it says that it has come to its end.
const ALONE: &str = "BATON_TEST_ALONE";

/// Runs the body in a network of its own. `test` is the name of the test that calls this, which is
/// started once more for it.
pub fn alone(test: &str, body: impl Future<Output = ()>) {
    let Some(proof) = env::var_os(ALONE) else {
        return again_alone(test);
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(body);
    fs::write(proof, "done").expect("the directory is writable");
}

fn again_alone(test: &str) {
    let dir = TempDir::new().expect("a temporary directory");
    let proof = dir.path().join("proof");
    let mut command = Command::new("unshare");
    if !nix::unistd::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--net", "--mount", "--pid", "--fork", "--kill-child"]);
    command.args(["--mount-proc", "sh", "-c"]);
    command.arg("mount -t tmpfs tmpfs /run && exec \"$@\"");
    command
        .arg("sh")
        .arg(env::current_exe().expect("a test has a file"));
    command.args(["--exact", test, "--nocapture", "--test-threads", "1"]);
    let status = command.env(ALONE, &proof).status();
    let status = status.expect("unshare is part of util-linux: `make setup` installs it");
    assert!(
        proof.exists() || status.code() == Some(101),
        "{test} cannot have network namespaces ({status}). It needs root, as with `sudo make \
         partitions`, or a kernel that lets everybody make them: sysctl \
         kernel.unprivileged_userns_clone=1, on Ubuntu also \
         kernel.apparmor_restrict_unprivileged_userns=0. In a container it needs --privileged"
    );
    assert!(status.success(), "{test} failed: see above");
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// Where the test itself is.
    Clients,
    Gateway(usize),
    Worker(usize),
    Redis,
    Replica,
}

pub const HOSTS: [Host; 7] = [
    Host::Clients,
    Host::Gateway(0),
    Host::Gateway(1),
    Host::Worker(0),
    Host::Worker(1),
    Host::Redis,
    Host::Replica,
];

impl Host {
    fn number(self) -> usize {
        let mut hosts = HOSTS.iter();
        hosts.position(|host| *host == self).expect("listed") + 1
    }

    pub fn address(self) -> String {
        format!("10.77.{}.2", self.number())
    }

    /// The router's end of its link.
    fn router(self) -> String {
        format!("10.77.{}.1", self.number())
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clients => write!(f, "clients"),
            Self::Gateway(number) => write!(f, "gateway-{number}"),
            Self::Worker(number) => write!(f, "worker-{number}"),
            Self::Redis => write!(f, "redis"),
            Self::Replica => write!(f, "replica"),
        }
    }
}

pub struct Network {
    _private: (),
}

impl Network {
    pub fn lay() -> Self {
        assert!(env::var_os(ALONE).is_some(), "only in a network of its own");
        ip("link set dev lo up");
        ip("netns add router");
        let forwards = Command::new("nsenter")
            .args(["--net=/run/netns/router", "sh", "-c"])
            .arg("echo 1 >/proc/sys/net/ipv4/ip_forward")
            .status();
        assert!(forwards.expect("nsenter runs").success());
        for host in HOSTS {
            join(host);
        }
        Self { _private: () }
    }

    /// The same command on that host.
    pub fn on(&self, host: Host, command: &Command) -> Command {
        if host == Host::Clients {
            panic!("the test itself is there");
        }
        let mut there = Command::new("nsenter");
        there.arg(format!("--net=/run/netns/{host}"));
        there.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => there.env(name, value),
                None => there.env_remove(name),
            };
        }
        there
    }

    /// What the one sends to the other is dropped from now on. Nobody is told.
    pub fn cut(&self, from: Host, to: Host) {
        ip(&format!("-n router rule add {}", drops(from, to)));
    }

    pub fn mend(&self, from: Host, to: Host) {
        ip(&format!("-n router rule del {}", drops(from, to)));
    }
}

fn join(host: Host) {
    let (own, number) = (host.address(), host.number());
    let router = host.router();
    let at = match host {
        Host::Clients => String::new(),
        _ => {
            ip(&format!("netns add {host}"));
            format!("-n {host} ")
        }
    };
    ip(&format!("{at}link set dev lo up"));
    ip(&format!(
        "{at}link add name uplink type veth peer name to-{number} netns router"
    ));
    ip(&format!("{at}addr add {own}/24 dev uplink"));
    ip(&format!("{at}link set dev uplink up"));
    ip(&format!("-n router addr add {router}/24 dev to-{number}"));
    ip(&format!("-n router link set dev to-{number} up"));
    ip(&format!("{at}route add default via {router}"));
}

fn drops(from: Host, to: Host) -> String {
    format!("from {} to {} blackhole", from.address(), to.address())
}

fn ip(words: &str) {
    let done = Command::new("ip").args(words.split(' ')).output();
    let done = done.expect("ip is part of iproute2: `make setup` installs it");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "ip {words}: {said}");
}

/// More than enough for a packet.
const MOMENT: std::time::Duration = std::time::Duration::from_millis(500);

#[test]
fn a_cut_is_silent_and_in_one_direction() {
    let test = "hosts::network::a_cut_is_silent_and_in_one_direction";
    alone(test, async {
        let network = Network::lay();
        let (here, there) = (Host::Clients, Host::Redis);
        let said = UdpSocket::bind((here.address(), 0)).await.expect("a port");
        let port = said.local_addr().expect("bound").port();
        // Whether what is said there is heard here.
        let hears = async || {
            let mut command = Command::new("bash");
            let words = format!("echo hello >/dev/udp/{}/{port}", here.address());
            command.args(["-c", &words]);
            let status = network.on(there, &command).status();
            assert!(status.expect("nsenter runs").success());
            let heard = timeout(MOMENT, said.recv(&mut [0; 16])).await;
            heard.is_ok()
        };
        // Nobody listens there: who gets through is told so.
        let is_told = async || {
            let connected = TcpStream::connect((there.address(), 1));
            timeout(MOMENT, connected).await.is_ok()
        };
        assert!(hears().await && is_told().await);
        network.cut(here, there);
        assert!(hears().await && !is_told().await, "{here} → {there}");
        network.mend(here, there);
        network.cut(there, here);
        assert!(!hears().await && !is_told().await, "{there} → {here}");
        network.mend(there, here);
        assert!(hears().await && is_told().await);
    });
}

//! Real balancers, with the configurations that users get: the files in `deploy/`, with the
//! addresses of a test in the place of those that are written there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cluster::{address, url};
use super::process::{Process, free_port};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// nginx without the line that routes by session.
    RoundRobin,
    Nginx,
    Haproxy,
    /// For keys that are published.
    Envoy,
}

pub struct Balancer {
    _process: Process,
    pub port: u16,
    /// Where HTTP/2 without TLS is spoken.
    h2_port: u16,
}

impl Balancer {
    pub fn start(kind: Kind, dir: &Path, gateways: &[u16]) -> Self {
        let port = free_port();
        match kind {
            Kind::RoundRobin => nginx(dir, port, gateways, false),
            Kind::Nginx => nginx(dir, port, gateways, true),
            Kind::Haproxy => haproxy(dir, port, gateways),
            Kind::Envoy => envoy(dir, port, gateways),
        }
    }

    pub fn h2_url(&self) -> String {
        url(self.h2_port)
    }
}

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The file with other addresses, and where it is. Each must be there to be replaced: otherwise the
/// test would run something else than what it means to.
fn adapted(dir: &Path, name: &str, changes: &[(&str, String)]) -> PathBuf {
    let mut text = fs::read_to_string(project().join("deploy").join(name)).expect("it is there");
    for (old, new) in changes {
        assert!(text.contains(old), "{name} has no `{old}`");
        text = text.replace(old, new);
    }
    let path = dir.join(name);
    fs::write(&path, text).expect("the directory is writable");
    path
}

fn nginx(dir: &Path, port: u16, gateways: &[u16], by_session: bool) -> Balancer {
    let h2_port = free_port();
    let base = dir.display();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|what| format!("{what}_temp_path {base}/{what};\n"))
        .concat();
    let mut changes = vec![
        ("server gateway-1:8080", server(gateways[0])),
        ("server gateway-2:8080", server(gateways[1])),
        ("listen 8080", format!("listen {}", address(port))),
        ("127.0.0.1:8081", address(h2_port)),
        ("http {", format!("http {{\n{temporary}")),
    ];
    if !by_session {
        changes.push(("hash $baton_key consistent;", String::new()));
    }
    let path = adapted(dir, "nginx.conf", &changes);
    let globals = format!("daemon off; master_process off; pid {base}/nginx.pid;");
    let mut command = Command::new("nginx");
    command.args(["-g", &globals, "-e", "stderr", "-p"]);
    command.arg(dir).arg("-c").arg(path);
    Balancer {
        _process: start(dir, "nginx", command),
        port,
        h2_port,
    }
}

fn server(port: u16) -> String {
    format!("server {}", address(port))
}

fn haproxy(dir: &Path, port: u16, gateways: &[u16]) -> Balancer {
    let changes = [
        ("gateway-1:8080", address(gateways[0])),
        ("gateway-2:8080", address(gateways[1])),
        ("bind :8080", format!("bind {}", address(port))),
    ];
    let path = adapted(dir, "haproxy.cfg", &changes);
    let mut command = Command::new("haproxy");
    command.arg("-db").arg("-f").arg(path);
    Balancer {
        _process: start(dir, "haproxy", command),
        port,
        h2_port: port,
    }
}

fn envoy(dir: &Path, port: u16, gateways: &[u16]) -> Balancer {
    let at = |port| format!("address: 127.0.0.1, port_value: {port}");
    let changes = [
        ("address: gateway-1, port_value: 8080", at(gateways[0])),
        ("address: gateway-2, port_value: 8080", at(gateways[1])),
        ("address: 0.0.0.0, port_value: 8080", at(port)),
    ];
    let path = adapted(dir, "envoy.yaml", &changes);
    let program = project().join("cli/tests/balancers/.venv/bin/envoy");
    let mut command = Command::new(program);
    // Several on one machine would share memory otherwise.
    command.arg("--disable-hot-restart");
    command.args(["--concurrency", "2", "--log-level", "warn", "-c"]);
    command.arg(path);
    Balancer {
        _process: start(dir, "envoy", command),
        port,
        h2_port: port,
    }
}

fn start(dir: &Path, name: &str, mut command: Command) -> Process {
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/usr/local/sbin"));
    Process::start(dir, name, &mut command)
}

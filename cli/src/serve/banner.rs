//! The lines that `baton serve` prints when it is ready: where it listens, and a command to paste
//! into another shell.

use std::env;
use std::ffi::OsStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

/// The page with the same turn as three requests by curl.
const FIRST_TURN: &str = "docs/guide/first-turn.md";

pub struct Banner {
    pub address: SocketAddr,
    pub tls: bool,
    /// Callers have to bring a credential.
    pub authenticated: bool,
    /// There is a page for people.
    pub console: bool,
}

impl Banner {
    pub fn text(&self) -> String {
        let called = env::args_os().next().unwrap_or_default();
        let path = env::var_os("PATH").unwrap_or_default();
        self.with_program(&program(&called, &path))
    }

    fn with_program(&self, program: &str) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        let (address, local) = (self.address, reachable(self.address));
        let hints: String = [
            (
                self.tls,
                "\n    (--ca FILE names the authority of a certificate that this machine does not \
                 trust)",
            ),
            (
                self.authenticated,
                "\n    (--credential-file FILE holds the credential that this server asks for)",
            ),
        ]
        .into_iter()
        .filter_map(|(applies, hint)| applies.then_some(hint))
        .collect();
        let page = if self.console {
            format!(
                "Talk to its agent in a browser:\n\n    {scheme}://{local}/\n\nor from another "
            )
        } else {
            "Talk to its agent from another ".to_owned()
        };
        format!(
            "Baton listens on {scheme}://{address}/acp\n\n{page}\
             shell:\n\n    {program} chat {scheme}://{local}{hints}\n\nThe same with curl, in \
             three requests: {FIRST_TURN}\nCtrl-C stops."
        )
    }
}

/// A server that listens on all addresses is reached by the loopback address from this machine.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    SocketAddr::new(ip, address.port())
}

/// How to call this program from a shell in any directory: by its name if the shell finds this very
/// file by it, else by its path.
fn program(called: &OsStr, path: &OsStr) -> String {
    let called = Path::new(called);
    let whole = match called.components().count() {
        // The shell that started it found it in PATH.
        0 | 1 => return quoted(called),
        _ => std::path::absolute(called).unwrap_or_else(|_| called.to_owned()),
    };
    let name = called.file_name().unwrap_or_default();
    let found = env::split_paths(path).map(|directory| directory.join(name));
    let found = found.into_iter().find(|file| file.is_file());
    if found.is_some_and(|found| same(&found, &whole)) {
        quoted(Path::new(name))
    } else {
        quoted(&whole)
    }
}

fn same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    real(one).is_some_and(|one| real(other) == Some(one))
}

fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let plain = shlex::try_quote(&text).map(|quoted| quoted.into_owned());
    plain.unwrap_or_else(|_| "baton".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn banner(address: &str) -> Banner {
        Banner {
            address: address.parse().expect("an address"),
            tls: false,
            authenticated: false,
            console: true,
        }
    }

    #[test]
    fn it_says_where_and_gives_one_line_to_paste() {
        let text = banner("127.0.0.1:8080").with_program("baton");
        assert!(text.starts_with("Baton listens on http://127.0.0.1:8080/acp\n"));
        assert!(text.contains("\n    baton chat http://127.0.0.1:8080\n"));
        assert!(
            text.contains("in a browser:\n\n    http://127.0.0.1:8080/\n"),
            "{text}"
        );
        assert!(text.contains(FIRST_TURN) && !text.contains("curl -"));
    }

    #[test]
    fn a_server_on_all_addresses_is_called_by_the_loopback_address() {
        let text = banner("0.0.0.0:1").with_program("baton");
        assert!(text.contains("listens on http://0.0.0.0:1/acp"), "{text}");
        assert!(text.contains("baton chat http://127.0.0.1:1\n"), "{text}");
        let text = banner("[::]:1").with_program("baton");
        assert!(text.contains("baton chat http://[::1]:1\n"), "{text}");
    }

    #[test]
    fn a_certificate_and_a_credential_have_their_hints() {
        let secured = Banner {
            tls: true,
            authenticated: true,
            ..banner("127.0.0.1:1")
        };
        let text = secured.with_program("baton");
        assert!(text.contains("baton chat https://127.0.0.1:1\n"), "{text}");
        assert!(text.contains("--ca FILE") && text.contains("--credential-file FILE"));
    }

    #[test]
    fn the_program_is_named_as_any_shell_finds_it() {
        let dir = tempfile::TempDir::new().expect("a temporary directory");
        let file = dir.path().join("a b/baton");
        std::fs::create_dir(dir.path().join("a b")).expect("a directory");
        std::fs::write(&file, "").expect("a file");
        let on_path = dir.path().join("a b").into_os_string();
        assert_eq!(program(file.as_os_str(), &on_path), "baton");
        let elsewhere = program(file.as_os_str(), OsStr::new("/bin"));
        assert_eq!(elsewhere, format!("'{}'", file.display()));
        assert_eq!(program(OsStr::new("baton"), OsStr::new("/bin")), "baton");
        let relative = program(OsStr::new("target/quick/baton"), OsStr::new("/bin"));
        assert!(relative.starts_with('/') && relative.ends_with("/target/quick/baton"));
    }
}

//! Where an agent's program has its files: the program, what interprets it, and the packages of
//! both.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// A script's interpreter may be a script.
const DEEPEST: u32 = 4;
/// So much of a first line counts, as for the kernel.
const SHEBANG: u64 = 256;
/// Directories that hold more than what a program there needs.
const BROAD: [&str; 5] = ["/", "/home", "/root", "/tmp", "/var/tmp"];

/// Returns the files that the command needs to read.
pub fn files(command: &[String], environment: &[(OsString, OsString)]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Some((program, arguments)) = command.split_first() else {
        return found;
    };
    if let Some(program) = resolve(OsStr::new(program), environment) {
        add_program(&program, environment, DEEPEST, &mut found);
    }
    // A script for an interpreter, a configuration, a folder.
    for argument in arguments {
        let path = Path::new(argument);
        if path.is_absolute() && path.exists() {
            add_tree(path, environment, &mut found);
        }
    }
    found
}

/// The directories of `PATH`.
pub fn search_path(environment: &[(OsString, OsString)]) -> impl Iterator<Item = PathBuf> {
    let path = environment.iter().find(|(name, _)| name == "PATH");
    let path = path.map(|(_, path)| path.as_os_str()).unwrap_or_default();
    let all: Vec<_> = std::env::split_paths(path).collect();
    all.into_iter().filter(|path| path.is_absolute())
}

/// A directory with programs, and the libraries that were installed with them.
pub fn installation(directory: &Path) -> Vec<PathBuf> {
    let mut all = vec![directory.to_owned()];
    if let (Some(prefix), true) = (directory.parent(), directory.ends_with("bin")) {
        all.extend(["lib", "lib64", "libexec"].map(|name| prefix.join(name)));
    }
    all
}

fn resolve(program: &OsStr, environment: &[(OsString, OsString)]) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(program));
    }
    let mut found = search_path(environment).map(|directory| directory.join(program));
    found.find(|path| path.is_file())
}

fn add_program(
    program: &Path,
    environment: &[(OsString, OsString)],
    depth: u32,
    found: &mut Vec<PathBuf>,
) {
    add_tree(program, environment, found);
    // By each of its names: a virtual environment's python is a link, and has its packages beside
    // that.
    let real = program.canonicalize().unwrap_or_default();
    for path in [program, &real] {
        if let Some(parent) = path.parent() {
            found.extend(virtual_environment(path));
            if parent.ends_with("bin") && parent != Path::new("/bin") {
                found.extend(installation(parent));
            }
        }
    }
    if let Some(interpreter) = shebang(&real).filter(|_| depth > 0)
        && let Some(interpreter) = resolve(&interpreter, environment)
    {
        add_program(&interpreter, environment, depth - 1, found);
    }
}

/// A file, and what lies beside it and in the packages around it.
fn add_tree(path: &Path, environment: &[(OsString, OsString)], found: &mut Vec<PathBuf>) {
    let Ok(real) = path.canonicalize() else {
        return;
    };
    found.push(real.clone());
    if real.is_dir() {
        return;
    }
    let home = environment.iter().find(|(name, _)| name == "HOME");
    let broad = |directory: &Path| {
        BROAD.iter().any(|broad| Path::new(broad) == directory)
            || home.is_some_and(|(_, home)| Path::new(home) == directory)
    };
    found.extend(
        real.parent()
            .filter(|parent| !broad(parent))
            .map(Path::to_owned),
    );
    for directory in real.ancestors().skip(1).take_while(|path| !broad(path)) {
        found.extend(["node_modules", "package.json"].map(|name| directory.join(name)));
        if directory.ends_with("node_modules") {
            found.push(directory.to_owned());
        }
    }
}

/// The one that the program is in: `DIR/bin/python` of a DIR that says so.
fn virtual_environment(program: &Path) -> Option<PathBuf> {
    let directory = program.parent()?.parent()?;
    let is_one = directory.join("pyvenv.cfg").is_file();
    is_one.then(|| directory.to_owned())
}

/// The program that the first line names: `#!/usr/bin/env -S node --flag` is node.
fn shebang(script: &Path) -> Option<OsString> {
    let mut line = Vec::new();
    File::open(script)
        .ok()?
        .take(SHEBANG)
        .read_to_end(&mut line)
        .ok()?;
    let line = line.strip_prefix(b"#!")?;
    let line = line.split(|byte| *byte == b'\n').next()?;
    let mut words = line
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty());
    let first = words.next()?;
    let is_env = Path::new(OsStr::from_bytes(first)).ends_with("env");
    let named = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='));
    let word = if is_env { named? } else { first };
    Some(OsStr::from_bytes(word).to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    fn put(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn programs_are_found_with_their_interpreters_and_packages() {
        let dir = TempDir::new().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let script = base.join("app/node_modules/@a/agent/dist/index.js");
        put(&script, "#!/usr/bin/env -S node --no-warnings\n");
        put(&base.join("node/bin/node"), "\x7fELF");
        put(&base.join("venv/pyvenv.cfg"), "");
        fs::create_dir_all(base.join("venv/bin")).unwrap();
        symlink("/bin/sh", base.join("venv/bin/python")).unwrap();
        fs::create_dir_all(base.join("app/node_modules/.bin")).unwrap();
        symlink(&script, base.join("app/node_modules/.bin/agent")).unwrap();
        let path = base.join("node/bin").into_os_string();
        let environment = [(OsString::from("PATH"), path)];
        let found = |command: &str| {
            files(
                &[base.join(command).to_str().unwrap().to_owned()],
                &environment,
            )
        };
        let agent = found("app/node_modules/.bin/agent");
        for path in [
            "app/node_modules",
            "app/package.json",
            "node/bin",
            "node/lib",
        ] {
            assert!(agent.contains(&base.join(path)), "{path}: {agent:?}");
        }
        let python = found("venv/bin/python");
        assert!(python.contains(&base.join("venv")), "{python:?}");
        assert!(!python.contains(&base), "{python:?}");
    }

    #[test]
    fn a_script_in_a_broad_place_does_not_open_it() {
        let dir = tempfile::NamedTempFile::new_in("/tmp").unwrap();
        let command = ["sh".to_owned(), dir.path().to_str().unwrap().to_owned()];
        let found = files(&command, &[("PATH".into(), "/bin".into())]);
        assert!(
            found.contains(&dir.path().canonicalize().unwrap()),
            "{found:?}"
        );
        assert!(!found.contains(&PathBuf::from("/tmp")), "{found:?}");
    }
}

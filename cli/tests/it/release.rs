//! `scripts/release`, as far as it goes without building: in a copy of the repository.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

struct Copy(TempDir);

impl Copy {
    /// All files that are tracked, as they are now, in one commit.
    fn new() -> Self {
        let dir = TempDir::new().expect("a temporary directory");
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let script =
            "git ls-files -z | xargs -0 ls -d 2>/dev/null | tar -c -T - | tar -x -C \"$0\"";
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).arg(dir.path()).current_dir(from);
        assert!(shell.status().expect("sh runs").success());
        let copy = Self(dir);
        copy.git(&["init", "--quiet"]);
        copy.commit();
        copy
    }

    fn commit(&self) {
        self.git(&["add", "--all", "--force"]);
        self.git(&["commit", "--quiet", "--message", "A copy"]);
    }

    fn git(&self, words: &[&str]) -> String {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=Test", "-c", "user.email=test@localhost"]);
        let output = git.args(words).current_dir(self.0.path()).output();
        let output = output.expect("git runs");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "git {words:?}: {errors}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn release(&self, words: &[&str]) -> Output {
        let mut command = Command::new(self.0.path().join("scripts/release"));
        let command = command.args(words).env("RELEASE_DATE", "2031-02-03");
        for who in ["GIT_AUTHOR", "GIT_COMMITTER"] {
            command.env(format!("{who}_NAME"), "Test");
            command.env(format!("{who}_EMAIL"), "test@localhost");
        }
        command.output().expect("the script runs")
    }

    /// Puts a shell script in the place of another.
    fn plays(&self, script: &str, text: &str) {
        let path = self.0.path().join(script);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("a script");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a script");
    }

    /// The last release that formats are known of.
    fn becomes(&self, version: &str) {
        let path = self.0.path().join("session/src/format.rs");
        let text = fs::read_to_string(&path).expect("a file");
        let known = format!("version: \"{}\"", env!("CARGO_PKG_VERSION"));
        let text = text.replace(&known, &format!("version: \"{version}\""));
        fs::write(path, text).expect("a file");
    }
}

fn told(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_dry_run_shows_the_version_everywhere_and_changes_nothing() {
    let copy = Copy::new();
    copy.becomes("9.8.7");
    copy.commit();
    let before = copy.git(&["rev-parse", "HEAD"]);
    let output = copy.release(&["--dry-run", "9.8.7"]);
    let (shown, errors) = told(&output);
    assert!(output.status.success(), "{shown}{errors}");
    for change in [
        "+version = \"9.8.7\"",
        "+baton-session = { path = \"session\", version = \"9.8.7\" }",
        "+version: 9.8.7",
        "+appVersion: \"9.8.7\"",
        "+## [9.8.7] - 2031-02-03",
        "-Baton is young and has no release yet.",
        "+Baton is young.",
        "baton:9.8.7",
        "Cargo.lock",
        "git tag v9.8.7",
    ] {
        assert!(shown.contains(change), "{change} is missing:\n{shown}");
    }
    assert_eq!(copy.git(&["rev-parse", "HEAD"]), before);
    assert_eq!(copy.git(&["status", "--porcelain"]), "");
    assert_eq!(copy.git(&["tag", "--list"]), "");
    assert_eq!(copy.git(&["worktree", "list"]).lines().count(), 1);
}

#[test]
fn a_release_is_refused_with_every_reason() {
    let copy = Copy::new();
    let current = env!("CARGO_PKG_VERSION");
    copy.git(&["tag", &format!("v{current}")]);
    fs::write(copy.0.path().join("README.md"), "changed").expect("a file");
    let output = copy.release(&["--dry-run", current]);
    let (_, errors) = told(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        errors.contains("in no commit") && errors.contains("a tag"),
        "{errors}"
    );
    copy.commit();
    let output = copy.release(&["--dry-run", "9.8.7"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(told(&output).1.contains("RELEASES"));
    let output = copy.release(&["--dry-run", "next"]);
    assert_eq!(output.status.code(), Some(64));
}

#[test]
fn an_unchecked_release_says_so_in_its_notes_and_its_tag() {
    let copy = Copy::new();
    let current = env!("CARGO_PKG_VERSION");
    // Neither images nor advisories are to be had here, and the build has tests of its own.
    copy.plays("deploy/pin", "exit 1");
    copy.plays("scripts/check-supply", "exit 0");
    copy.plays("deploy/build", "mkdir -p \"$1\"; : >\"$1/SHA256SUMS\"");
    let chart = format!(": >\"$4/baton-{current}.tgz\"");
    copy.plays("helm/tests/.venv/bin/helm", &chart);
    copy.commit();
    let artefacts = copy.0.path().join("target/artefacts");
    let folder = artefacts.to_str().expect("a path");
    let output = copy.release(&[current, folder]);
    assert_eq!(output.status.code(), Some(1), "{:?}", told(&output));
    assert_eq!(copy.git(&["tag", "--list"]), "");
    let output = copy.release(&["--unchecked", current, folder]);
    assert!(output.status.success(), "{:?}", told(&output));
    let warning = "Not checked: images of others have no digest.";
    let notes = fs::read_to_string(artefacts.join("NOTES.md")).expect("notes");
    assert!(notes.starts_with(&format!("**{warning}**")), "{notes}");
    let tag = copy.git(&["tag", "--list", "--format=%(contents)"]);
    assert!(
        tag.contains(&format!("Baton {current}")) && tag.contains(warning),
        "{tag}"
    );
    let sums = fs::read_to_string(artefacts.join("SHA256SUMS")).expect("sums");
    assert_eq!(sums.lines().count(), 2, "{sums}");
}

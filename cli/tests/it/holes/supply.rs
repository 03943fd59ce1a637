//! Supply: what Baton is made of is checked, and what is not fixed is named.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("it is in the project")
}

fn text(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&both).into_owned()
}

#[test]
fn supply_images_without_a_digest_are_named_and_pinned_ones_pass() {
    let copy = tempfile::TempDir::new().expect("a temporary directory");
    let files = [
        "deploy/pin",
        "deploy/Dockerfile",
        "deploy/compose.yaml",
        "deploy/compose.haproxy.yaml",
        "deploy/compose.envoy.yaml",
        "helm/baton/values.yaml",
    ];
    for file in files {
        let to = copy.path().join(file);
        fs::create_dir_all(to.parent().expect("a directory")).expect("writable");
        fs::copy(project().join(file), to).expect("readable");
    }
    let pin = |more: &[&str], path: &str| {
        let mut command = Command::new("bash");
        command.arg(copy.path().join("deploy/pin")).args(more);
        command.env("PATH", path).output().expect("bash runs")
    };
    let path = std::env::var("PATH").expect("a path");
    let loose = pin(&["--check"], &path);
    // Once digests are in the project there is nothing to name.
    if !loose.status.success() {
        for image in ["rust:", "redis:", "nginx:", "haproxy:", "envoyproxy/envoy:"] {
            assert!(text(&loose).contains(image), "{}", text(&loose));
        }
    }
    // A registry that has one digest for everything.
    let bin = copy.path().join("bin");
    fs::create_dir(&bin).expect("writable");
    let answer = "#!/bin/sh\nprintf 'sha256:%064d' 7\n";
    fs::write(bin.join("docker"), answer).expect("writable");
    let made = Command::new("chmod")
        .arg("+x")
        .arg(bin.join("docker"))
        .status();
    assert!(made.expect("chmod runs").success());
    let path = format!("{}:{path}", bin.display());
    for _ in 0..2 {
        let pinned = pin(&[], &path);
        assert!(pinned.status.success(), "{}", text(&pinned));
        let checked = pin(&["--check"], &path);
        assert!(checked.status.success(), "{}", text(&checked));
    }
    let compose = fs::read_to_string(copy.path().join("deploy/compose.yaml")).expect("readable");
    assert_eq!(compose.matches("@sha256:").count(), 2, "{compose}");
}

//! A data directory, from one machine to the next.

use std::fs;

use reqwest::StatusCode;
use serde_json::json;

use super::{Place, loaded, modes, refused, session_token, with_token};
use crate::revocation::{is_refused, works};
use crate::support::Client;
use crate::support::http::{load, new_session, prompt};
use crate::support::process::Process;
use crate::support::sse::counted;

/// More than are said before the server is killed, and soon said when it is back.
const LONG: u64 = 600;

#[tokio::test]
async fn what_was_acknowledged_before_a_backup_is_there_and_what_was_lost_is_told_from_it() {
    let place = Place::new();
    let mut server = place.serve("data").await;
    let client = Client::initialize(&server.url()).await;
    let mut opened = client.one_shot(new_session(json!("n"))).await;
    let answer = opened.response(&json!("n")).await;
    let session = answer["result"]["sessionId"].as_str().unwrap().to_owned();
    let token = session_token(&answer);
    let mut stream = client.session_stream(&session, None).await;
    client.post(prompt(json!(1), &session, "/count 20")).await;
    assert_eq!(stream.turn(&json!(1)).await, counted(20, 1));
    let kept = stream.last_id.clone();
    // Turns that run all the time: one is in the middle whenever the backup is taken.
    let busy = client.new_session().await;
    let mut talk = client.session_stream(&busy, None).await;
    let long = format!("/count {LONG} delay=5");
    client.post(prompt(json!(1), &busy, &long)).await;
    while talk.next().await.expect("it goes on").chunk().is_none() {}

    place.backup("data", "backup");
    assert_eq!(modes(&place.at("backup")), 0o600);
    // What nobody will remember.
    client.post(prompt(json!(2), &session, "/count 30")).await;
    assert_eq!(stream.turn(&json!(2)).await, counted(30, 2));
    let (lost, lost_session) = (stream.last_id.clone(), client.new_session().await);
    server.process.kill();
    place.restore("backup", "restored");
    assert_eq!(modes(&place.at("restored")), 0o700);
    assert_eq!(modes(&place.at("restored/keys.json")), 0o600);
    let server = place.serve("restored").await;

    // Nothing that was issued before counts.
    is_refused(&client.at(&server.url())).await;
    let again = || prompt(json!(9), &session, "/count 1");
    let status = with_token(&server.url(), &token, again()).await;
    assert_eq!(status, StatusCode::NOT_FOUND);

    let client = Client::initialize(&server.url()).await;
    let (stream, chunks, _) = loaded(&client, &session).await;
    assert_eq!(chunks, counted(20, 1));
    let mut body = client.one_shot(load(json!("x"), &lost_session)).await;
    let answer = body.response(&json!("x")).await;
    assert_eq!(answer["error"]["code"], -32002, "{answer}");
    // A cursor of what was lost leads nowhere, before its numbers were given again and after.
    let reset = async || {
        let mut stream = client.session_stream(&session, Some(&lost)).await;
        assert_eq!(stream.next().await.expect("an event").event, "reset");
        stream
    };
    drop(stream);
    let mut stream = reset().await;
    client.post(prompt(json!(3), &session, "/count 50")).await;
    assert_eq!(stream.turn(&json!(3)).await, counted(50, 2));
    let number = |cursor: &str| cursor.split('.').next().unwrap().parse::<u64>().unwrap();
    assert!(number(&stream.last_id) > number(&lost) && number(&lost) > number(&kept));
    reset().await;

    // The turn goes on where the backup has it: nothing is missing, and nothing is there twice.
    let (mut stream, mut chunks, _) = loaded(&client, &busy).await;
    while chunks.len() < LONG as usize {
        chunks.extend(stream.next().await.expect("the turn goes on").chunk());
    }
    assert_eq!(chunks, counted(LONG, 1));
    works(&client).await;
}

#[tokio::test]
async fn a_backup_is_taken_whether_somebody_uses_the_directory_or_not() {
    let place = Place::new();
    let mut server = place.serve("data").await;
    let client = Client::initialize(&server.url()).await;
    let session = client.new_session().await;
    for file in ["one", "two"] {
        place.backup("data", file);
    }
    let again = place.backup_command("data", "one").output().unwrap();
    refused(&again, 64, "choose another name");
    server.process.kill();
    place.backup("data", "three");
    let left = fs::read_dir(place.dir.path()).unwrap();
    let left = left.map(|file| file.unwrap().file_name().into_string().unwrap());
    assert_eq!(left.filter(|name| name.ends_with(".part")).count(), 0);
    for file in ["one", "two", "three"] {
        let data = format!("from-{file}");
        place.restore(file, &data);
        let server = place.serve(&data).await;
        let client = Client::initialize(&server.url()).await;
        let (_, _, answer) = loaded(&client, &session).await;
        assert!(answer["result"].is_object(), "{file}: {answer}");
        // A restored one is as good as any other.
        place.backup(&data, &format!("of-{data}"));
    }
    let missing = place.backup_command("none", "four").output().unwrap();
    refused(&missing, 74, "no data directory");
    assert!(!place.at("none").exists() && !place.at("four").exists());
}

#[tokio::test]
async fn a_backup_is_of_the_directory_that_was_named() {
    let place = Place::new();
    let _silent = place
        .serve_with("silent", &["--admin-listen", "none"])
        .await;
    let unheard = place.backup_command("silent", "one").output().unwrap();
    refused(&unheard, 1, "--admin-listen");
    let _other = place.serve("other").await;
    // As a process that is gone might have left it.
    let heard = fs::read_to_string(place.at("other/ADMIN")).unwrap();
    fs::write(place.at("silent/ADMIN"), &heard).unwrap();
    let elsewhere = place.backup_command("silent", "one").output().unwrap();
    refused(&elsewhere, 1, "keeps its data elsewhere");
    let named = |command: &mut std::process::Command| {
        command.args(["--admin", heard.trim()]).output().unwrap()
    };
    refused(
        &named(&mut place.backup_command("silent", "one")),
        1,
        "keeps its data elsewhere",
    );
    assert!(!place.at("one").exists());
    let mut command = super::plain();
    command.args(["store", "backup"]).arg(place.at("one"));
    super::succeeded(&named(&mut command));
    place.restore("one", "restored");
    // One that keeps nothing in files has nothing to give.
    let port = crate::support::process::free_port();
    let socket = format!("unix:{}", place.at("memory.sock").display());
    let mut command = super::plain();
    let listen = crate::support::cluster::address(port);
    command.args(["serve", "--ephemeral", "--listen", &listen]);
    command.args(["--admin-listen", &socket]);
    let _memory = Process::start(place.dir.path(), "memory", &mut command);
    crate::support::cluster::ready(port).await;
    let mut command = super::plain();
    command.args(["store", "backup", "--admin", &socket]);
    let output = command.arg(place.at("two")).output().unwrap();
    refused(&output, 1, "keeps nothing in files");
}

#[tokio::test]
async fn a_backup_that_cannot_be_trusted_is_refused() {
    let place = Place::new();
    let server = place.serve("data").await;
    Client::initialize(&server.url()).await.new_session().await;
    place.backup("data", "backup");
    let whole = fs::read(place.at("backup")).unwrap();
    fs::write(place.at("short"), &whole[..whole.len() - 10]).unwrap();
    let mut spoiled = whole.clone();
    let last = spoiled.len() - 40;
    spoiled[last] ^= 1;
    fs::write(place.at("spoiled"), &spoiled).unwrap();
    fs::write(place.at("foreign"), "REDIS0010").unwrap();
    for (file, about) in [
        ("short", "cut off"),
        ("spoiled", "damaged"),
        ("foreign", "no backup"),
        ("none", "No such file"),
    ] {
        refused(&place.try_restore(file, "restored"), 74, about);
        assert!(!place.at("restored").exists());
    }
    refused(&place.try_restore("backup", "data"), 74, "not empty");
}

//! Drives a Baton endpoint with the official Rust SDK, unmodified.
//! Usage: `scenario <http|ws> <url> [prompt]...`, for example `scenario ws http://127.0.0.1:8080/acp`. With prompts it
//! is a visit to whichever agent is there, else it wants the scripted one.

use std::time::Duration;

use crate::scenario::scenario;
use crate::steps::Steps;
use crate::visit::visit;

mod checks;
mod peer;
mod scenario;
mod steps;
mod turns;
mod visit;

const LIMIT: Duration = Duration::from_secs(60);

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (url, prompts) = match &args[..] {
        [transport, url, prompts @ ..] if transport == "http" => (url.clone(), prompts),
        [transport, url, prompts @ ..] if transport == "ws" => {
            (url.replacen("http", "ws", 1), prompts)
        }
        _ => fail("usage: scenario <http|ws> <url> [prompt]..."),
    };
    let steps = Steps::default();
    let played = async {
        match prompts {
            [] => scenario(&url, &steps).await,
            prompts => visit(&url, prompts, &steps).await,
        }
    };
    match tokio::time::timeout(LIMIT, played).await {
        Ok(Ok(())) => println!("scenario passed"),
        Ok(Err(error)) => fail(&format!("failed at {}: {error:#}", steps.current())),
        Err(_) => fail(&format!(
            "failed at {}: no end after {} s",
            steps.current(),
            LIMIT.as_secs()
        )),
    }
}

fn fail(message: &str) -> ! {
    println!("{message}");
    std::process::exit(1)
}

//! A visit to any agent: whatever it can do by itself, its sessions can be listed, loaded, resumed, forked, closed and
//! deleted.

use agent_client_protocol::v1::schema::{SessionId, StopReason};
use anyhow::{Result, ensure};

use crate::checks::{ensure_equal, ensure_same_items};
use crate::peer::{Peer, with_peer};
use crate::steps::Steps;
use crate::turns::{Turn, turns_of};

pub async fn visit(url: &str, prompts: &[String], steps: &Steps) -> Result<()> {
    steps.begin("initialize");
    with_peer(url, async |first| {
        first.initialize().await?;
        with_peer(url, async |second| {
            second.initialize().await?;
            steps.pass();
            steps.begin("session/new");
            let session = first.new_session().await?.session_id;
            steps.pass();
            steps.begin("session/prompt");
            let mut live = Vec::new();
            for prompt in prompts {
                says(&first, &session, prompt, &mut live).await?;
            }
            steps.pass();
            look_back(&second, &session, &prompts[0], live, steps).await
        })
        .await
    })
    .await?;
    steps.pass();
    Ok(())
}

/// A turn in which something is said.
async fn says(peer: &Peer, session: &SessionId, prompt: &str, live: &mut Vec<Turn>) -> Result<()> {
    let (stop, chunks) = peer.turn(session, prompt, live).await?;
    ensure_equal(&stop, &StopReason::EndTurn, "stopReason")?;
    ensure!(!chunks.concat().is_empty(), "nothing was said to {prompt}");
    Ok(())
}

/// On a connection that has not seen the session yet.
async fn look_back(
    peer: &Peer,
    session: &SessionId,
    prompt: &str,
    mut live: Vec<Turn>,
    steps: &Steps,
) -> Result<()> {
    steps.begin("session/list");
    ensure!(peer.listed().await?.contains(session), "it is not listed");
    steps.pass();

    steps.begin("session/load");
    peer.load(session).await?;
    ensure_same_items(&turns_of(&peer.take_updates())?, &live, "replay")?;
    steps.pass();

    steps.begin("session/close");
    peer.close(session).await?;
    steps.pass();

    steps.begin("session/resume");
    peer.resume(session).await?;
    ensure!(peer.take_chunks().is_empty(), "a resume replays nothing");
    says(peer, session, prompt, &mut live).await?;
    steps.pass();

    steps.begin("session/fork");
    let child = peer.fork(session).await?;
    peer.load(&child).await?;
    ensure_same_items(&turns_of(&peer.take_updates())?, &live, "the fork's past")?;
    says(peer, &child, prompt, &mut live).await?;
    steps.pass();

    steps.begin("session/delete");
    peer.delete(session).await?;
    let listed = peer.listed().await?;
    ensure!(
        !listed.contains(session) && listed.contains(&child),
        "the fork lives on"
    );
    says(peer, &child, prompt, &mut live).await?;
    steps.pass();

    steps.begin("close transports");
    Ok(())
}

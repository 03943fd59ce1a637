//! What the scripted agent can do, and what Baton adds.

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{
    SessionConfigId, SessionConfigKind, SessionConfigOption, SessionConfigSelectOptions,
    SessionConfigValueId, SessionId, StopReason,
};
use anyhow::{Context, Result, ensure};

use crate::checks::{ensure_equal, ensure_same_items};
use crate::peer::{Peer, allow_once, with_peer};
use crate::steps::Steps;
use crate::turns::{Turn, counted, turns_of};

pub async fn scenario(url: &str, steps: &Steps) -> Result<()> {
    steps.begin("initialize");
    let asked_in_all = with_peer(url, async |first| {
        first.initialize().await?;
        steps.pass();

        let (session, live) = first_connection(&first, steps).await?;

        steps.begin("second connection initialize");
        let asked_second = with_peer(url, async |second| {
            second.initialize().await?;
            steps.pass();
            second_connection(&second, &session, &live, steps).await?;
            whole_sessions(&second, &session, live, steps).await?;
            steps.begin("close transports");
            Ok(second.permission_requests().len())
        })
        .await?;

        let late = first.take_chunks();
        let expected = [counted(5, 5, 5), counted(2, 6, 2)].concat();
        let seen = late.len().min(expected.len());
        ensure_same_items(&late, &expected[..seen], "updates seen by the observer")?;
        Ok(first.permission_requests().len() + asked_second)
    })
    .await?;
    // The transports are closed here: the SDK returns only once its DELETE has been answered.
    ensure_equal(&asked_in_all, &1, "permission requests in all")?;
    steps.pass();
    Ok(())
}

/// What the first connection leaves for the second one to find.
struct Session {
    id: SessionId,
    choice: Option<(SessionConfigId, SessionConfigValueId)>,
}

async fn first_connection(first: &Peer, steps: &Steps) -> Result<(Session, Vec<Turn>)> {
    let mut live = Vec::new();

    steps.begin("session/new");
    let session = first.new_session().await?;
    let id = session.session_id.clone();
    let modes = session.modes.as_ref().context("no modes")?;
    ensure_equal(&&*modes.current_mode_id.0, &"code", "modes.currentModeId")?;
    steps.pass();

    steps.begin("prompt echo");
    let (stop, chunks) = first.turn(&id, "hello brave new world", &mut live).await?;
    ensure_equal(&chunks.concat().trim(), &"hello brave new world", "echo")?;
    ensure_equal(&stop, &StopReason::EndTurn, "stopReason")?;
    steps.pass();

    steps.begin("permission");
    let (stop, _) = first.turn(&id, "/permission", &mut live).await?;
    let asked = first.permission_requests();
    ensure_equal(&asked.len(), &1, "permission requests received")?;
    ensure_equal(
        &asked[0].session_id,
        &id,
        "session of the permission request",
    )?;
    ensure!(
        allow_once(&asked[0]).is_some(),
        "no allow_once option was offered"
    );
    ensure_equal(&stop, &StopReason::EndTurn, "stopReason")?;
    steps.pass();

    steps.begin("prompt count 50");
    let (stop, chunks) = first.turn(&id, "/count 50", &mut live).await?;
    ensure_same_items(&chunks, &counted(50, 3, 50), "chunks")?;
    ensure_equal(&stop, &StopReason::EndTurn, "stopReason")?;
    steps.pass();

    steps.begin("cancel");
    let cancelled_turn = first.turn(&id, "/count 1000 delay=20", &mut live);
    let (turn, cancel) = tokio::join!(cancelled_turn, first.cancel_after_chunks(&id, 3));
    let (stop, chunks) = turn?;
    cancel?;
    ensure_equal(&stop, &StopReason::Cancelled, "stopReason")?;
    ensure!(
        chunks.len() < 1000,
        "the turn ran to its end in spite of the cancel"
    );
    ensure_same_items(&chunks, &counted(1000, 4, chunks.len()), "chunks")?;
    steps.pass();

    steps.begin("session/set_mode");
    first.set_mode(&id, "ask").await?;
    steps.pass();

    let choice = other_choice(session.config_options.as_deref().unwrap_or_default());
    if let Some((config, value)) = &choice {
        steps.begin("session/set_config_option");
        let options = first.set_config_option(&id, config, value).await?;
        ensure_equal(&value_of(&options, config), &Some(value), "config option")?;
        steps.pass();
    }
    Ok((Session { id, choice }, live))
}

async fn second_connection(
    second: &Peer,
    session: &Session,
    live: &[Turn],
    steps: &Steps,
) -> Result<()> {
    steps.begin("session/load");
    let answer = second.load(&session.id).await?;
    let replay = turns_of(&second.take_updates())?;
    ensure_same_items(
        &replay,
        live,
        "replay, compared with what the first connection saw",
    )?;
    if let Some(modes) = answer.modes {
        ensure_equal(
            &&*modes.current_mode_id.0,
            &"ask",
            "currentModeId after load",
        )?;
    }
    if let (Some((id, value)), Some(options)) = (&session.choice, answer.config_options) {
        ensure_equal(
            &value_of(&options, id),
            &Some(value),
            "config option after load",
        )?;
    }
    steps.pass();

    steps.begin("prompt on second connection");
    let stop = second.prompt(&session.id, "/count 5").await?;
    ensure_same_items(&second.take_chunks(), &counted(5, 5, 5), "chunks")?;
    ensure_equal(&stop, &StopReason::EndTurn, "stopReason")?;
    steps.pass();

    steps.begin("session/close");
    second.close(&session.id).await?;
    steps.pass();
    Ok(())
}

/// What is done to sessions as wholes; the session is closed by now.
async fn whole_sessions(
    peer: &Peer,
    session: &Session,
    mut live: Vec<Turn>,
    steps: &Steps,
) -> Result<()> {
    steps.begin("session/resume");
    let answer = peer.resume(&session.id).await?;
    ensure!(peer.take_updates().is_empty(), "a resume replays nothing");
    let mode = answer.modes.context("no modes")?.current_mode_id;
    ensure_equal(&&*mode.0, &"ask", "currentModeId after resume")?;
    peer.prompt(&session.id, "/count 2").await?;
    ensure_same_items(&peer.take_chunks(), &counted(2, 6, 2), "chunks")?;
    steps.pass();

    steps.begin("session/fork");
    let child = peer.fork(&session.id).await?;
    peer.load(&child).await?;
    live.push(Turn::counted(5, 5));
    live.push(Turn::counted(2, 6));
    let past = turns_of(&peer.take_updates())?;
    ensure_same_items(&past, &live, "the fork's past")?;
    peer.prompt(&child, "/count 3").await?;
    ensure_same_items(&peer.take_chunks(), &counted(3, 7, 3), "chunks")?;
    steps.pass();

    steps.begin("session/list");
    let latest = [child.clone(), session.id.clone()];
    let listed = peer.listed().await?;
    ensure!(listed.starts_with(&latest), "the latest are not first");
    steps.pass();

    steps.begin("session/delete");
    for _ in 0..2 {
        peer.delete(&session.id).await?;
    }
    let listed = peer.listed().await?;
    ensure!(
        !listed.contains(&session.id),
        "the deleted session is listed"
    );
    let refused = peer.load(&session.id).await.err();
    let refused = refused
        .as_ref()
        .and_then(|error| error.downcast_ref::<Error>());
    let code = refused.map(|error| i32::from(error.code));
    ensure_equal(&code, &Some(-32002), "the answer to a load")?;
    peer.prompt(&child, "/count 1").await?;
    ensure_same_items(&peer.take_chunks(), &counted(1, 8, 1), "chunks")?;
    steps.pass();
    Ok(())
}

/// The id of a select option and one of its values that is not the current one.
fn other_choice(
    options: &[SessionConfigOption],
) -> Option<(SessionConfigId, SessionConfigValueId)> {
    options.iter().find_map(|option| {
        let SessionConfigKind::Select(select) = &option.kind else {
            return None;
        };
        let choices = match &select.options {
            SessionConfigSelectOptions::Ungrouped(choices) => choices.clone(),
            SessionConfigSelectOptions::Grouped(groups) => groups
                .iter()
                .flat_map(|group| group.options.clone())
                .collect(),
            _ => return None,
        };
        let choice = choices
            .into_iter()
            .find(|choice| choice.value != select.current_value)?;
        Some((option.id.clone(), choice.value))
    })
}

fn value_of<'a>(
    options: &'a [SessionConfigOption],
    id: &SessionConfigId,
) -> Option<&'a SessionConfigValueId> {
    let option = options.iter().find(|option| option.id == *id)?;
    match &option.kind {
        SessionConfigKind::Select(select) => Some(&select.current_value),
        _ => None,
    }
}

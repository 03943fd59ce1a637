//! When everybody has left: what remains in Redis, in the logs of the processes, and in the log of
//! each session.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::fleet::Fleet;
use crate::ledger::Ledger;
use crate::schedule::LEASE;
use crate::support::Client;
use crate::support::cluster::url;
use crate::support::http::load;

/// I7: nothing waits, nothing is owned, nothing belongs to nobody. A line for each thing that is so.
pub const LEFTOVERS: &str = "
local found = {}
local function say(key, what) found[#found + 1] = key .. ' ' .. what end
for _, key in ipairs(redis.call('KEYS', 'baton:*')) do
  local prefix, kind, name = string.match(key, '^(.-}:)(%a+):?(.*)$')
  if kind == 'due' then
    -- With a colon: which workers have room.
    if not string.find(name, ':', 1, true) then
      say(key, 'still has ' .. table.concat(redis.call('ZRANGE', key, 0, -1), ' '))
    end
  elseif kind == 's' then
    local m = redis.call('HMGET', key, 'own', 'run', 'pend', 'wk')
    if m[1] ~= '' then say(key, 'is owned by ' .. (m[4] or '?')) end
    if m[2] and m[2] ~= '' then say(key, 'runs command ' .. m[2]) end
    if m[3] and m[3] ~= '' then say(key, 'has questions: ' .. m[3]) end
  elseif kind == 'c' then
    say(key, 'is an inbox with ' .. redis.call('HLEN', key))
  elseif kind == 'e' or kind == 'p' then
    if redis.call('EXISTS', prefix .. 's:' .. name) == 0 then say(key, 'has no session') end
  elseif kind == 'h' or kind == 'l' then
    local there = redis.call('EXISTS', prefix .. 's:' .. name, prefix .. 'z:' .. name)
    if there ~= 1 then say(key, 'belongs to ' .. there .. ' sessions') end
  elseif kind == 'f' then
    for _, id in ipairs(redis.call('SMEMBERS', key)) do
      if redis.call('EXISTS', prefix .. 'l:' .. id) == 0 then say(key, 'lists ' .. id .. ', which \
                             is no fork') end
    end
  elseif kind == 'gone' then
    for _, id in ipairs(redis.call('ZRANGE', key, 0, -1)) do
      if redis.call('HGET', prefix .. 's:' .. id, 'prn') then say(key, 'lists ' .. id .. ', which \
                             is not deleted') end
    end
  elseif kind == 'rest' or kind == 'idle' or kind == 'ls' then
    for _, id in ipairs(redis.call('ZRANGE', key, 0, -1)) do
      local there = redis.call('EXISTS', prefix .. 's:' .. id, prefix .. 'z:' .. id)
      if there ~= 1 then say(key, 'lists ' .. id .. ', which is there ' .. there .. ' times') end
    end
  elseif kind == 'sync' then
    if redis.call('TTL', key) < 0 then say(key, 'stays for ever') end
  elseif kind == 'b' then
    local sum = 0
    for _, id in ipairs(redis.call('HKEYS', key)) do
      if id ~= 'sum' then
        sum = sum + redis.call('HGET', key, id)
        local there = redis.call('EXISTS', prefix .. 's:' .. id, prefix .. 'z:' .. id)
        if there ~= 1 then say(key, 'counts ' .. id .. ', which is there ' .. there .. ' times') \
                             end
      end
    end
    if sum ~= tonumber(redis.call('HGET', key, 'sum')) then say(key, 'has another sum than ' .. \
                             sum) end
  elseif kind == 'q' then
    if redis.call('TTL', key) < 0 then say(key, 'stays for ever') end
  elseif kind == 'x' then
    if redis.call('EXISTS', prefix .. 'k:' .. name) == 0 then say(key, 'has no connection') end
  elseif kind ~= 'k' and kind ~= 'cards' and kind ~= 'alive' and kind ~= 'came' and kind ~= 'z' \
                             and kind ~= 'v'
    and kind ~= 'store' and prefix ~= 'baton:{reports}:' then
    say(key, 'is unknown')
  end
end
return found";

pub async fn redis_is_clean(fleet: &Fleet, ledger: &Ledger) {
    if let Some(servers) = &fleet.servers {
        store_is_clean(|| servers.ask_all(&["eval", LEFTOVERS, "0"]), ledger).await;
    }
}

/// `leftovers` asks for them.
pub async fn store_is_clean(leftovers: impl Fn() -> String, ledger: &Ledger) {
    let deadline = Instant::now() + LEASE + Duration::from_secs(10);
    loop {
        let found = leftovers();
        let found = found.trim();
        if found.is_empty() {
            return;
        }
        if Instant::now() > deadline {
            for line in found.lines() {
                ledger.violation("I7", "-", "-", line);
            }
            return;
        }
        sleep(Duration::from_millis(100)).await;
    }
}

pub async fn gateways_are_idle(fleet: &Fleet, ledger: &Ledger) {
    for member in fleet.gateways() {
        if let Some((port, _)) = member.front {
            gateway_is_idle(&member.name, &url(port), ledger).await;
        }
    }
}

/// A stream whose client is gone must not stay open for ever.
pub async fn gateway_is_idle(name: &str, url: &str, ledger: &Ledger) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let open = metric(url, "baton_gateway_streams").await;
        if open == Some(0) {
            break;
        }
        if Instant::now() > deadline {
            let text = format!("{open:?} streams are open, and no client is left");
            ledger.violation("I8", name, "-", &text);
            break;
        }
        sleep(Duration::from_millis(100)).await;
    }
}

async fn metric(url: &str, name: &str) -> Option<u64> {
    let page = reqwest::get(url.replace("/acp", "/metrics")).await;
    let page = page.ok()?.text().await.ok()?;
    let mut lines = page.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

/// Loads every session, whole, and holds it against what its clients saw.
pub async fn history_is_what_was_seen(fleet: &Fleet, ledger: &Arc<Ledger>) {
    if let Some((port, _)) = fleet.gateways().find_map(|member| member.front.as_ref()) {
        history_at(&url(*port), ledger).await;
    }
}

pub async fn history_at(url: &str, ledger: &Arc<Ledger>) {
    let client = Client::initialize(url).await;
    for session in ledger.sessions().keys() {
        let reader = format!("historian of {session}");
        ledger.asked(&reader, session, None);
        let mut stream = client.one_shot(load(json!(session), session)).await;
        while let Some(event) = stream.next().await {
            ledger.saw(&reader, "history", &event.id, &event.data);
        }
        ledger.compare(&reader, session);
    }
    for session in ledger.deleted_sessions() {
        let mut stream = client.one_shot(load(json!("deleted"), &session)).await;
        let answer = stream.response(&json!("deleted")).await;
        if answer["error"].is_null() {
            let text = format!("it was deleted, and a load is answered with {answer}");
            ledger.violation("I4", "historian", &session, &text);
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Noted {
    /// I5: writes of a worker that had lost its claim, refused.
    pub fenced: u64,
    /// Ends of logs that a failover had cost and a worker wrote again.
    pub healed: u64,
    pub takeovers: u64,
}

/// Counts what the processes wrote down, and finds what should never be there.
pub fn read_logs(dir: &Path, ledger: &Ledger) -> Noted {
    let mut noted = Noted::default();
    for entry in std::fs::read_dir(dir)
        .expect("the run's directory")
        .flatten()
    {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.ends_with(".log") {
            continue;
        }
        let text = std::fs::read(entry.path()).unwrap_or_default();
        for line in String::from_utf8_lossy(&text).lines() {
            noted.fenced += u64::from(line.contains("fenced: another worker holds the session"));
            noted.healed += u64::from(line.contains("the log: it was written again"));
            noted.takeovers += u64::from(line.contains("resuming an interrupted turn"));
            // That Redis could not be reached is the truth.
            let away = line.contains("the store is not available");
            if line.contains(" ERROR ") && !away || line.contains("panicked at") {
                ledger.violation("log", &name, "-", line);
            }
        }
    }
    noted
}

/// Fails if something is wrong. The directory then stays, and with CHAOS_KEEP in any case.
pub fn verdict(ledger: &Ledger, dir: TempDir) {
    let violations = ledger.violations();
    if violations.is_empty() && std::env::var_os("CHAOS_KEEP").is_none() {
        return;
    }
    let (kept, run) = (dir.keep(), &ledger.run);
    println!("logs are in {}", kept.display());
    let (count, lines) = (violations.len(), violations.join("\n"));
    assert!(count == 0, "{count} violations with {run}\n{lines}");
}

//! `baton sessions list`

use baton_protocol::Method;
use clap::Args;
use serde_json::{Value, json};

use super::connection::SessionsConnection;
use super::terminal::{TerminalOutput, on_a_line};

#[derive(Args)]
pub struct ListOptions {
    /// List only sessions of this working directory
    #[arg(long, env = "BATON_SESSIONS_CWD", value_name = "DIR")]
    cwd: Option<String>,
    /// Maximum number of sessions; all without this option
    #[arg(long, env = "BATON_SESSIONS_LIMIT", value_name = "N")]
    limit: Option<usize>,
    /// Print one JSON document instead of a table
    #[arg(
        long,
        env = "BATON_SESSIONS_JSON",
        value_parser = clap::builder::BoolishValueParser::new()
    )]
    json: bool,
}

pub async fn run(
    connection: &SessionsConnection<'_>,
    options: &ListOptions,
    out: &mut TerminalOutput,
) -> anyhow::Result<()> {
    let sessions = all(connection, options).await?;
    if options.json {
        return out.json(&json!({ "sessions": sessions }).to_string());
    }
    let mut rows = vec![["ID", "UPDATED", "CWD", "TITLE"].map(str::to_owned)];
    rows.extend(sessions.iter().map(row));
    for line in aligned(&rows) {
        out.line(&line)?;
    }
    Ok(())
}

/// Page after page.
async fn all(
    connection: &SessionsConnection<'_>,
    options: &ListOptions,
) -> anyhow::Result<Vec<Value>> {
    let limit = options.limit.unwrap_or(usize::MAX);
    let mut sessions = Vec::new();
    let mut params = match &options.cwd {
        Some(cwd) => json!({ "cwd": cwd }),
        None => json!({}),
    };
    while sessions.len() < limit {
        let mut page = connection
            .call(Method::ListSessions, &params, |_| Ok(()))
            .await?;
        if let Value::Array(found) = page["sessions"].take() {
            sessions.extend(found);
        }
        match page["nextCursor"].take() {
            Value::Null => break,
            cursor => params["cursor"] = cursor,
        }
    }
    sessions.truncate(limit);
    Ok(sessions)
}

fn row(session: &Value) -> [String; 4] {
    let text = |field: &str| on_a_line(session[field].as_str().unwrap_or_default());
    // To the second.
    let updated = text("updatedAt");
    let updated = updated
        .split_once('.')
        .map_or(&*updated, |(start, _)| start);
    let updated = updated.replacen('T', " ", 1);
    [text("sessionId"), updated, text("cwd"), text("title")]
}

fn aligned(rows: &[[String; 4]]) -> impl Iterator<Item = String> {
    let mut widths = [0; 4];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    rows.iter().map(move |row| {
        let cells = row.iter().zip(widths);
        let cells: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        cells.join("  ").trim_end().to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_every_session_has_its_line() {
        let one = json!({ "sessionId": "07a-x", "updatedAt": "2026-11-17T02:12:21.123Z", "cwd": "/tmp", "title": "a\nb" });
        let two =
            json!({ "sessionId": "07a-longer", "updatedAt": "2026-11-17T02:12:22Z", "cwd": "/" });
        let lines: Vec<String> = aligned(&[row(&one), row(&two)]).collect();
        assert_eq!(
            lines,
            [
                "07a-x       2026-11-17 02:12:21   /tmp  a\\nb",
                "07a-longer  2026-11-17 02:12:22Z  /",
            ]
        );
    }
}

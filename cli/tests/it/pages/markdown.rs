//! As much of Markdown as the pages use: links and headings outside of code.

use std::collections::BTreeMap;

/// The text without code blocks and code spans.
fn prose(text: &str) -> String {
    let mut prose = String::new();
    let mut fenced = false;
    let mut blank = true;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            continue;
        }
        // An indented block begins after an empty line; elsewhere indentation continues a list.
        let block = blank && line.starts_with("    ") && !prose.trim_end().ends_with(':');
        blank = line.trim().is_empty();
        if !fenced && !block {
            prose += line;
            prose.push('\n');
        }
    }
    prose
}

/// All code blocks, fenced or indented, without their indentation.
pub fn code_blocks(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut block = String::new();
    let mut fenced = false;
    for line in text.lines().chain([""]) {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        match line.strip_prefix("    ") {
            Some(inner) if !fenced && !fence => block += &format!("{inner}\n"),
            _ if fenced && !fence => block += &format!("{line}\n"),
            _ if !block.is_empty() => blocks.push(std::mem::take(&mut block)),
            _ => {}
        }
    }
    blocks
}

/// Commands in indented blocks and in those that say `sh`, each on a line, without comments.
pub fn shell_commands(text: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut fence: Option<&str> = None;
    for line in text.replace("\\\n", "").lines() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            fence = match fence {
                Some(_) => None,
                None => Some(if language == "sh" { "sh" } else { "other" }),
            };
            continue;
        }
        let command = match fence {
            Some("sh") => line,
            Some(_) => continue,
            None => line.strip_prefix("    ").unwrap_or_default(),
        };
        let command = command.split(" #").next().unwrap_or_default();
        let words: Vec<&str> = command.split_whitespace().collect();
        if !words.is_empty() {
            commands.push(words.join(" "));
        }
    }
    commands
}

/// Targets of links and images that are not on another host.
pub fn links(text: &str) -> Vec<String> {
    let prose = prose(text);
    let mut spans = prose.split('`').enumerate();
    // Between backticks is code, but the text of a link may be code.
    let bare: String = spans
        .by_ref()
        .map(|(number, part)| if number % 2 == 0 { part } else { "code" })
        .collect();
    let targets = bare
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next());
    let local = targets.filter(|target| !target.contains("://") && !target.starts_with("mailto:"));
    local.map(str::to_owned).collect()
}

/// The anchors of all headings, made as GitHub and mdBook make them.
pub fn anchors(text: &str) -> Vec<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut anchors = Vec::new();
    let mut fenced = false;
    for line in text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        let title = line.trim_start_matches('#');
        let level = line.len() - title.len();
        if fenced || !(1..=6).contains(&level) || !title.starts_with(' ') {
            continue;
        }
        let anchor = anchor(title.trim());
        let times = seen.entry(anchor.clone()).or_default();
        anchors.push(match *times {
            0 => anchor,
            number => format!("{anchor}-{number}"),
        });
        *times += 1;
    }
    anchors
}

fn anchor(title: &str) -> String {
    let kept = title.chars().filter_map(|letter| match letter {
        ' ' => Some('-'),
        '-' | '_' => Some(letter),
        _ if letter.is_alphanumeric() => letter.to_lowercase().next(),
        _ => None,
    });
    kept.collect()
}

/// The cells of every row of the tables whose head begins with this column. `\|` is part of a cell.
pub fn rows(text: &str, first_column: &str) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        let Some(line) = line.strip_prefix('|') else {
            inside = false;
            continue;
        };
        let line = line
            .trim_end()
            .trim_end_matches('|')
            .replace("\\|", "\u{0}");
        let cells: Vec<String> = line
            .split('|')
            .map(|cell| cell.trim().replace('\u{0}', "|"))
            .collect();
        match inside {
            true => rows.push(cells),
            false => inside = cells[0] == first_column,
        }
    }
    // The line beneath a head.
    rows.retain(|cells| !cells[0].trim_matches(':').chars().all(|c| c == '-'));
    rows
}

#[test]
fn links_and_anchors_are_found() {
    let text = "# A `baton` page: first\n\nSee [it](a.md#x), [`b`](b.md) and [web](https://x.y).\n\n## \
         Same\n\n## Same\n\n```\n[no](c.md)\n```\n";
    assert_eq!(links(text), ["a.md#x", "b.md"]);
    assert_eq!(anchors(text), ["a-baton-page-first", "same", "same-1"]);
    assert_eq!(
        rows(
            "| a | b |\n|---|---|\n| `x\\|y` | 2 |\n\n| c |\n|---|\n| 3 |\n",
            "a"
        ),
        [["`x|y`", "2"]]
    );
}

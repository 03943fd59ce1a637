//! An entry of `mcpServers`, beneath patterns: the first line of the input is a pattern, the rest
//! is the entry.

use serde_json::Value;
use serde_json::value::RawValue;

use crate::mcp::fuzzing::{fits_command, fits_url};
use crate::mcp::{CommandPattern, ServerEntry, UrlPattern};

pub fn mcp_entry(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let (pattern, entry) = text.split_once('\n').unwrap_or(("**", text));
    let _ = ServerEntry::read_file(entry);
    let Ok(entry) = serde_json::from_str::<&RawValue>(entry) else {
        return;
    };
    let Ok(read) = ServerEntry::read(entry) else {
        return;
    };
    let value: Value = serde_json::from_str(entry.get()).expect("what is read is JSON");
    assert_eq!(value["name"], read.name());
    if let Ok(command) = pattern.parse::<CommandPattern>()
        && fits_command(&command, &read)
        && !pattern.contains("**")
    {
        // Word by word, and none is a URL that the pattern does not have.
        let words = pattern.split_whitespace();
        let args = value["args"].as_array().map_or(&[][..], Vec::as_slice);
        assert_eq!(words.clone().count(), args.len() + 1);
        for (word, arg) in words.skip(1).zip(args) {
            let arg = arg.as_str().expect("arguments are text");
            let option = word.starts_with('*') && arg.starts_with('-');
            assert!(!option, "{word} {arg}");
            assert!(word.contains(':') || !arg.contains(':'), "{word} {arg}");
        }
    }
    if let Ok(pattern) = pattern.parse::<UrlPattern>()
        && let Some(url) = fits_url(&pattern, &read)
    {
        assert!(matches!(url.scheme(), "http" | "https"));
        assert!(url.username().is_empty() && url.password().is_none());
        assert_eq!(value["url"].as_str().map(url::Url::parse), Some(Ok(url)));
    }
}

//! Blocks of content, from the shapes that model APIs and tools give them.

use serde_json::{Value, json};

pub fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// A block of Anthropic's API as ACP has it; `None` if it is not known here.
pub fn of_anthropic(block: &Value) -> Option<Value> {
    let source = &block["source"];
    match block["type"].as_str()? {
        "text" => Some(text(block["text"].as_str()?)),
        "image" => match source["type"].as_str()? {
            "base64" => Some(json!({
                "type": "image",
                "mimeType": source["media_type"].as_str()?,
                "data": source["data"].as_str()?,
            })),
            "url" => Some(link(source["url"].as_str()?)),
            _ => None,
        },
        "document" => {
            let name = block["title"].as_str().unwrap_or("document");
            let uri = format!("attachment:///{}", in_uri(name));
            let kind = source["media_type"].as_str().unwrap_or("text/plain");
            let data = source["data"].as_str()?;
            let resource = match source["type"].as_str()? {
                "text" => json!({ "uri": uri, "mimeType": kind, "text": data }),
                "base64" => json!({ "uri": uri, "mimeType": kind, "blob": data }),
                _ => return None,
            };
            Some(json!({ "type": "resource", "resource": resource }))
        }
        _ => None,
    }
}

pub fn link(uri: &str) -> Value {
    let name = uri.rsplit('/').next().filter(|name| !name.is_empty());
    json!({ "type": "resource_link", "uri": uri, "name": name.unwrap_or("link") })
}

/// An image given as `data:image/png;base64,…`, or a link.
pub fn image_at(url: &str) -> Value {
    let inline = url.strip_prefix("data:").and_then(|rest| {
        let (kind, data) = rest.split_once(";base64,")?;
        kind.starts_with("image/")
            .then(|| json!({ "type": "image", "mimeType": kind, "data": data }))
    });
    inline.unwrap_or_else(|| link(url))
}

/// Nothing that a path or a reader of URIs takes for more than a name.
fn in_uri(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let mut name: String = name
        .chars()
        .take(100)
        .map(|c| if plain(c) { c } else { '_' })
        .collect();
    if name.chars().all(|c| c == '.') {
        name.insert(0, '_');
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_what_acp_calls_them() {
        let image = json!({ "type": "image", "source":
            { "type": "base64", "media_type": "image/png", "data": "AAAA" } });
        let expected = json!({ "type": "image", "mimeType": "image/png", "data": "AAAA" });
        assert_eq!(of_anthropic(&image), Some(expected));
        let page = json!({ "type": "document", "title": "../../etc/passwd", "source":
            { "type": "base64", "media_type": "application/pdf", "data": "JVBE" } });
        let found = of_anthropic(&page).unwrap();
        assert_eq!(found["resource"]["uri"], "attachment:///.._.._etc_passwd");
        assert_eq!(found["resource"]["blob"], "JVBE");
        assert_eq!(of_anthropic(&json!({ "type": "hologram" })), None);
        assert_eq!(of_anthropic(&json!({ "type": "image" })), None);
    }

    #[test]
    fn an_image_in_a_url_is_an_image() {
        let found = image_at("data:image/jpeg;base64,AAAA");
        assert_eq!(found["mimeType"], "image/jpeg");
        assert_eq!(
            image_at("data:text/html;base64,AAAA")["type"],
            "resource_link"
        );
        assert_eq!(image_at("https://x.example/a.png")["name"], "a.png");
    }
}

//! The content blocks of ACP, as a model is told them.

use serde_json::Value;

use super::model::MessagePart;

/// One block of a prompt, or of what a tool answered.
pub fn part_of(block: &Value) -> MessagePart {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = block["type"].as_str().unwrap_or_default();
    match kind {
        "text" => MessagePart::Text(text(&block["text"])),
        "image" => MessagePart::Image {
            mime_type: text(&block["mimeType"]),
            data: text(&block["data"]),
        },
        "resource" => resource(&block["resource"]),
        "resource_link" => {
            let (name, uri) = (text(&block["name"]), text(&block["uri"]));
            MessagePart::Text(format!("[{name}]({uri})"))
        }
        _ => MessagePart::Text(format!("[content of type {kind}, which cannot be shown]")),
    }
}

fn resource(resource: &Value) -> MessagePart {
    let uri = resource["uri"].as_str().unwrap_or_default();
    if let Some(text) = resource["text"].as_str() {
        let text = format!("<resource uri={uri:?}>\n{text}\n</resource>");
        return MessagePart::Text(text);
    }
    let mime_type = resource["mimeType"].as_str().unwrap_or_default();
    match resource["blob"].as_str() {
        Some(data) if mime_type.starts_with("image/") => MessagePart::Image {
            mime_type: mime_type.to_owned(),
            data: data.to_owned(),
        },
        _ => MessagePart::Text(format!("[resource {uri}, which cannot be shown]")),
    }
}

/// The blocks in an array, each a part.
pub fn parts_of(blocks: &Value) -> Vec<MessagePart> {
    let blocks = blocks.as_array().into_iter().flatten();
    blocks.map(part_of).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_kind_of_content_is_told() {
        let blocks = json!([
            { "type": "text", "text": "Look:" },
            { "type": "image", "mimeType": "image/png", "data": "AAAA" },
            { "type": "resource", "resource": { "uri": "file:///a", "text": "alpha" } },
            { "type": "resource", "resource": {
                "uri": "file:///b", "mimeType": "image/png", "blob": "BBBB" } },
            { "type": "resource_link", "name": "c", "uri": "file:///c" },
            { "type": "audio", "mimeType": "audio/wav", "data": "CCCC" },
        ]);
        let image = |data: &str| MessagePart::Image {
            mime_type: "image/png".into(),
            data: data.into(),
        };
        let text = |text: &str| MessagePart::Text(text.into());
        let expected = [
            text("Look:"),
            image("AAAA"),
            text("<resource uri=\"file:///a\">\nalpha\n</resource>"),
            image("BBBB"),
            text("[c](file:///c)"),
            text("[content of type audio, which cannot be shown]"),
        ];
        assert_eq!(parts_of(&blocks), expected);
    }
}

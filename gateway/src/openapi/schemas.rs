//! The schemas of `/openapi.json`, by name.

use serde_json::{Map, Value, json};

use crate::responses::REPORTED;

pub fn all() -> Value {
    json!({
        "CreateResponse": create_response(),
        "Response": response(),
        "ResponseEvents": {
            "type": "string", "description": "Server-sent events, the last of them [DONE]",
        },
        "DeletedResponse": object(&[
            ("id", text()), ("object", text()), ("deleted", json!({ "const": true })),
        ]),
        "ItemList": object(&[
            ("object", json!({ "const": "list" })), ("data", list(json!({ "type": "object" }))),
            ("first_id", or_null("string")), ("last_id", or_null("string")),
            ("has_more", flag()),
        ]),
        "Caller": object(&[
            ("gateway", text()), ("observe", flag()), ("admin", flag()),
            ("shared", or_null("string")), ("login", flag()), ("demo", flag()), ("shares", flag()),
        ]),
        "HoldingWorker": object(&[("worker", or_null("string"))]),
        "ShareRequest": object(&[("sessionId", text()), ("expiresIn", whole())]),
        "Share": object(&[("token", text()), ("expiresAt", moment())]),
        "ShareToken": object(&[("token", text())]),
        "OpenedShare": object(&[("sessionId", text()), ("expiresAt", moment())]),
        "LoginMethods": object(&[("auth", text()), ("provider", or_null("string"))]),
        "LoginLocation": object(&[("location", text())]),
        "Cluster": json!({ "type": "object" }),
        "DrainProcess": object(&[("process", text())]),
        "RevokeSubject": {
            "oneOf": [
                object(&[("session", text())]),
                object(&[("connection", text())]),
                object(&[("principal", text())]),
            ],
        },
        "CloseSession": object(&[("session", text()), ("caller", text())]),
        "KillWorker": object(&[("session", text())]),
        "Model": object(&[
            ("id", text()), ("object", json!({ "const": "model" })), ("created", whole()),
            ("owned_by", text()),
        ]),
        "ModelList": object(&[
            ("object", json!({ "const": "list" })), ("data", list(named("Model"))),
        ]),
        "AgentList": object(&[("agents", list(json!({
            "type": "object", "required": ["name", "version", "default", "workers", "path"],
        })))]),
        "Session": object(&[
            ("sessionId", text()), ("agent", text()), ("cwd", text()), ("title", text()),
            ("updatedAt", moment()), ("state", json!({ "enum": ["idle", "working"] })),
        ]),
        "SessionList": object(&[("sessions", list(json!({
            "type": "object", "required": ["sessionId", "cwd", "updatedAt"],
        })))]),
        "Turn": object(&[
            ("id", text()), ("state", json!({ "enum": ["running", "ended", "failed"] })),
            ("beganAt", or_null("string")), ("endedAt", or_null("string")),
            ("stopReason", or_null("string")), ("error", or_null("object")),
            ("usage", or_null("object")),
        ]),
        "TurnList": object(&[("turns", list(named("Turn"))), ("next", or_null("string"))]),
        "ForkSession": {
            "type": "object",
            "properties": { "turn": text(), "cwd": text() },
            "additionalProperties": false,
        },
        "ForkedSession": object(&[("sessionId", text())]),
        "Archive": { "type": "string", "description": "Lines of JSON" },
        "ImportedSession": object(&[("sessionId", text()), ("signed", flag())]),
        "Ticket": object(&[("ticket", text()), ("expiresIn", whole())]),
        "Error": object(&[("error", object(&[
            ("message", text()), ("type", text()), ("param", or_null("string")), ("code", text()),
        ]))]),
        "RpcError": object(&[
            ("jsonrpc", json!({ "const": "2.0" })),
            ("error", object(&[("code", whole()), ("message", text())])),
        ]),
    })
}

fn create_response() -> Value {
    json!({
        "type": "object",
        "required": ["input"],
        "properties": {
            "model": { "type": ["string", "null"], "maxLength": 256 },
            "input": { "type": ["string", "array"] },
            "previous_response_id": or_null("string"),
            "conversation": { "type": ["string", "object", "null"] },
            "stream": { "type": ["boolean", "null"] },
            "background": { "type": ["boolean", "null"] },
            "instructions": or_null("string"),
            "metadata": or_null("object"),
            "temperature": { "type": ["number", "null"], "minimum": 0, "maximum": 2 },
            "top_p": { "type": ["number", "null"], "minimum": 0, "maximum": 1 },
            "tools": { "type": ["array", "null"], "maxItems": 128 },
        },
    })
}

/// All fields are always there.
fn response() -> Value {
    let mut fields = vec![
        ("id", text()),
        ("object", json!({ "const": "response" })),
        ("created_at", whole()),
        ("completed_at", or_null("integer")),
        ("status", text()),
        ("incomplete_details", or_null("object")),
        ("model", text()),
        ("previous_response_id", or_null("string")),
        ("error", or_null("object")),
        ("usage", or_null("object")),
        (
            "output",
            list(json!({ "type": "object", "required": ["type", "id"] })),
        ),
    ];
    fields.extend(REPORTED.iter().map(|(name, _)| (*name, json!({}))));
    object(&fields)
}

fn object(fields: &[(&str, Value)]) -> Value {
    let names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    let properties = fields
        .iter()
        .map(|(name, schema)| ((*name).to_owned(), schema.clone()));
    let properties: Map<String, Value> = properties.collect();
    json!({ "type": "object", "required": names, "properties": properties })
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn moment() -> Value {
    json!({ "type": "string", "format": "date-time" })
}

fn whole() -> Value {
    json!({ "type": "integer" })
}

fn flag() -> Value {
    json!({ "type": "boolean" })
}

fn or_null(kind: &str) -> Value {
    json!({ "type": [kind, "null"] })
}

fn list(items: Value) -> Value {
    json!({ "type": "array", "items": items })
}

fn named(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

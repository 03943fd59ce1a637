//! `/openapi.json`: what is under `/v1`, as OpenAPI 3.1. A test compares it with the routes.

use serde_json::{Map, Value, json};

mod schemas;

/// One method at one path.
struct ApiOperation {
    method: &'static str,
    path: &'static str,
    summary: &'static str,
    /// Name and what it says.
    query: &'static [(&'static str, &'static str)],
    /// Its type and the schema of what is sent.
    body: Option<(&'static str, &'static str)>,
    status: &'static str,
    /// Types and schemas of the answer; none for an empty one.
    answer: &'static [(&'static str, &'static str)],
}

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";
const LINES: &str = "application/x-ndjson";

/// Most of them read something.
const READ: ApiOperation = ApiOperation {
    method: "get",
    path: "",
    summary: "",
    query: &[],
    body: None,
    status: "200",
    answer: &[],
};

const OPERATIONS: &[ApiOperation] = &[
    ApiOperation {
        method: "post",
        path: "/v1/responses",
        summary: "Begins a response",
        body: Some((JSON, "CreateResponse")),
        answer: &[(JSON, "Response"), (EVENTS, "ResponseEvents")],
        ..READ
    },
    ApiOperation {
        path: "/v1/responses/{id}",
        summary: "A response as it is, or its events",
        query: &[
            ("stream", "true: its events"),
            ("starting_after", "the sequence_number that was seen last"),
        ],
        answer: &[(JSON, "Response"), (EVENTS, "ResponseEvents")],
        ..READ
    },
    ApiOperation {
        method: "delete",
        path: "/v1/responses/{id}",
        summary: "Deletes the conversation that ends with a response",
        answer: &[(JSON, "DeletedResponse")],
        ..READ
    },
    ApiOperation {
        method: "post",
        path: "/v1/responses/{id}/cancel",
        summary: "Ends a response",
        answer: &[(JSON, "Response")],
        ..READ
    },
    ApiOperation {
        path: "/v1/responses/{id}/input_items",
        summary: "What the user said",
        answer: &[(JSON, "ItemList")],
        ..READ
    },
    ApiOperation {
        path: "/v1/models",
        summary: "The agents that the caller may use, as models",
        answer: &[(JSON, "ModelList")],
        ..READ
    },
    ApiOperation {
        path: "/v1/models/{name}",
        summary: "One of them",
        answer: &[(JSON, "Model")],
        ..READ
    },
    ApiOperation {
        path: "/v1/agents",
        summary: "The agents that the caller may use",
        answer: &[(JSON, "AgentList")],
        ..READ
    },
    ApiOperation {
        path: "/v1/sessions",
        summary: "The caller's sessions, newest first",
        query: &[
            ("cwd", "only those in this directory"),
            ("cursor", "nextCursor of the page before"),
        ],
        answer: &[(JSON, "SessionList")],
        ..READ
    },
    ApiOperation {
        path: "/v1/sessions/{id}",
        summary: "A session",
        answer: &[(JSON, "Session")],
        ..READ
    },
    ApiOperation {
        path: "/v1/sessions/{id}/turns",
        summary: "The turns of a session, in order",
        query: &[("after", "next of the page before"), ("limit", "1 to 100")],
        answer: &[(JSON, "TurnList")],
        ..READ
    },
    ApiOperation {
        method: "post",
        path: "/v1/sessions/{id}/fork",
        summary: "Forks a session after one of its turns",
        body: Some((JSON, "ForkSession")),
        status: "201",
        answer: &[(JSON, "ForkedSession")],
        ..READ
    },
    ApiOperation {
        path: "/v1/sessions/{id}/export",
        summary: "A session as lines of JSON",
        answer: &[(LINES, "Archive")],
        ..READ
    },
    ApiOperation {
        method: "post",
        path: "/v1/sessions/import",
        summary: "Takes in such lines",
        body: Some((LINES, "Archive")),
        status: "201",
        answer: &[(JSON, "ImportedSession")],
        ..READ
    },
    ApiOperation {
        method: "post",
        path: "/v1/tickets",
        summary: "A ticket to open a WebSocket with",
        answer: &[(JSON, "Ticket")],
        ..READ
    },
    ApiOperation {
        method: "post",
        path: "/v1/login",
        summary: "Exchanges the credential for a cookie",
        status: "204",
        ..READ
    },
    ApiOperation {
        method: "post",
        path: "/v1/logout",
        summary: "Ends the login of the cookie",
        status: "204",
        ..READ
    },
    ApiOperation {
        path: "/v1/caller",
        summary: "What the caller may do here",
        answer: &[(JSON, "Caller")],
        ..READ
    },
    ApiOperation {
        path: "/v1/sessions/{id}/worker",
        summary: "The worker that holds a session now",
        answer: &[(JSON, "HoldingWorker")],
        ..READ
    },
    ApiOperation {
        method: "post",
        path: "/v1/shares",
        summary: "A link by which others may watch a session",
        body: Some((JSON, "ShareRequest")),
        answer: &[(JSON, "Share")],
        ..READ
    },
    ApiOperation {
        method: "post",
        path: "/v1/shares/open",
        summary: "Exchanges what a link has for cookies",
        body: Some((JSON, "ShareToken")),
        answer: &[(JSON, "OpenedShare")],
        ..READ
    },
    ApiOperation {
        path: "/v1/login-methods",
        summary: "How one gets in",
        answer: &[(JSON, "LoginMethods")],
        ..READ
    },
    ApiOperation {
        method: "post",
        path: "/v1/login/oidc",
        summary: "Begins a login at the identity provider, for pages of this gateway",
        answer: &[(JSON, "LoginLocation")],
        ..READ
    },
    ApiOperation {
        path: "/v1/operator/cluster",
        summary: "All processes, for administrators",
        answer: &[(JSON, "Cluster")],
        ..READ
    },
    ApiOperation {
        method: "post",
        path: "/v1/operator/drain",
        summary: "Stops a process in order",
        body: Some((JSON, "DrainProcess")),
        status: "202",
        ..READ
    },
    ApiOperation {
        method: "post",
        path: "/v1/operator/revoke",
        summary: "Revokes a session, a connection or a principal",
        body: Some((JSON, "RevokeSubject")),
        status: "204",
        ..READ
    },
    ApiOperation {
        method: "post",
        path: "/v1/operator/close",
        summary: "Closes somebody's session",
        body: Some((JSON, "CloseSession")),
        status: "202",
        ..READ
    },
    ApiOperation {
        method: "post",
        path: "/v1/demo/kill",
        summary: "With serve --demo: kills the worker that holds a session",
        body: Some((JSON, "KillWorker")),
        answer: &[(JSON, "HoldingWorker")],
        ..READ
    },
];

pub fn document() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for operation in OPERATIONS {
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method] = operation.describe();
    }
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Baton", "version": env!("CARGO_PKG_VERSION") },
        "security": [{}, { "bearer": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": { "bearer": { "type": "http", "scheme": "bearer" } },
            "schemas": schemas::all(),
        },
    })
}

impl ApiOperation {
    fn describe(&self) -> Value {
        let mut told = json!({
            "summary": self.summary,
            "operationId": self.id(),
            "parameters": self.parameters(),
            "responses": {
                (self.status): { "description": self.summary, "content": content(self.answer) },
                "default": {
                    "description": "An error",
                    "content": content(&[(JSON, self.error())]),
                },
            },
        });
        if let Some(body) = self.body {
            told["requestBody"] = json!({ "required": true, "content": content(&[body]) });
        }
        told
    }

    /// `get_v1_models_name`.
    fn id(&self) -> String {
        let path = self.path.replace(['{', '}'], "").replace('/', "_");
        format!("{}{path}", self.method)
    }

    fn error(&self) -> &'static str {
        let open = ["/v1/responses", "/v1/models"];
        let is_open = open.iter().any(|door| self.path.starts_with(door));
        if is_open { "Error" } else { "RpcError" }
    }

    fn parameters(&self) -> Vec<Value> {
        let segments = self.path.split('/');
        let names = segments.filter_map(|it| it.strip_prefix('{')?.strip_suffix('}'));
        let in_path = names.map(|name| {
            json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } })
        });
        let in_query = self.query.iter().map(|(name, meaning)| {
            let schema = json!({ "type": "string" });
            json!({ "name": name, "in": "query", "description": meaning, "schema": schema })
        });
        in_path.chain(in_query).collect()
    }
}

fn content(kinds: &[(&str, &str)]) -> Value {
    let kinds = kinds.iter().map(|(kind, schema)| {
        let schema = json!({ "$ref": format!("#/components/schemas/{schema}") });
        ((*kind).to_owned(), json!({ "schema": schema }))
    });
    kinds.collect::<Map<_, _>>().into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// `.route("PATH", HANDLERS)`, as `router.rs` has them.
    fn routed() -> BTreeSet<(String, String)> {
        let source = include_str!("router.rs");
        let flat = source.split_whitespace().collect::<String>();
        let mut found = BTreeSet::new();
        for route in flat.split(".route(\"").skip(1) {
            let (path, handlers) = route.split_once('"').expect("a path");
            let handlers = handlers.split(".route(").next().expect("handlers");
            let handlers = handlers.split(".layer(").next().expect("handlers");
            for method in ["get", "post", "delete", "put", "patch"] {
                let own = format!(",{method}(");
                let chained = format!(").{method}(");
                if path.starts_with("/v1/")
                    && (handlers.contains(&own) || handlers.contains(&chained))
                {
                    found.insert((path.to_owned(), method.to_owned()));
                }
            }
        }
        found
    }

    #[test]
    fn every_route_is_described_and_nothing_else() {
        let described = OPERATIONS
            .iter()
            .map(|it| (it.path.to_owned(), it.method.to_owned()));
        assert_eq!(described.collect::<BTreeSet<_>>(), routed());
    }

    #[test]
    fn every_schema_that_is_named_is_there() {
        let text = document().to_string();
        let named = text.split("#/components/schemas/").skip(1);
        let named: BTreeSet<&str> = named.map(|rest| rest.split('"').next().unwrap()).collect();
        let schemas = schemas::all();
        let there: BTreeSet<&str> = schemas
            .as_object()
            .unwrap()
            .keys()
            .map(|it| &**it)
            .collect();
        assert_eq!(named, there);
    }
}

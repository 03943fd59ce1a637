//! The agent's questions as MCP has them, and the answers as ACP has them. A permission becomes a
//! form with one choice; a form of the agent's own stays one.

use baton_protocol::{Envelope, Method, compose};
use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::revision::McpRevision;
use super::turn_reader::AgentQuestion;

/// The field of the form that a permission becomes.
const CHOICE: &str = "choice";

/// As models are shown it.
pub fn describe(question: &AgentQuestion) -> Value {
    let (method, params) = read(&question.message);
    let mut described = json!({ "id": question.id, "title": title(method, &params) });
    if method == Method::RequestPermission {
        described["options"] = options(&params)
            .map(|option| json!({ "id": option["optionId"], "name": option["name"] }))
            .collect();
    } else {
        described["form"] = params["requestedSchema"].clone();
    }
    described
}

/// `params` of `elicitation/create`. `None` for what no form can ask.
pub fn elicitation(question: &AgentQuestion, revision: McpRevision) -> Option<Value> {
    let (method, params) = read(&question.message);
    let schema = match method {
        Method::RequestPermission => permission_form(&params, revision),
        Method::CreateElicitation if params["mode"] == "form" => params["requestedSchema"].clone(),
        _ => return None,
    };
    let mut asked = json!({ "message": title(method, &params), "requestedSchema": schema });
    if revision.titles_choices() {
        asked["mode"] = json!("form");
    }
    Some(asked)
}

/// `elicitation/create` as it is asked on a stream; its id leads the answer to the session.
pub fn request(question: &AgentQuestion, revision: McpRevision) -> Option<Bytes> {
    let params = elicitation(question, revision)?;
    Some(compose::request(&question.id, "elicitation/create", params))
}

/// The answer to the agent, of the client's `ElicitResult`. `None` if it is no such.
pub fn answer(question: &AgentQuestion, elicited: &Value) -> Option<Bytes> {
    let (method, params) = read(&question.message);
    let action = elicited["action"].as_str()?;
    let content = elicited.get("content").filter(|it| it.is_object());
    let reply = match method {
        Method::RequestPermission => {
            let chosen = content.and_then(|content| content[CHOICE].as_str());
            let chosen = chosen.filter(|_| action == "accept");
            return match chosen {
                Some(option) => choose(question, option),
                None => Some(decline(question, &params)),
            };
        }
        _ => match content.filter(|_| action == "accept") {
            Some(content) => json!({ "action": "accept", "content": content }),
            None => json!({ "action": action }),
        },
    };
    Some(result(question, &reply))
}

/// The answer with the option of this id, or with the fields of a form.
pub fn answer_plainly(question: &AgentQuestion, given: &Value) -> Option<Bytes> {
    let (method, _) = read(&question.message);
    match (method, given) {
        (Method::RequestPermission, Value::String(option)) => choose(question, option),
        (Method::RequestPermission, _) => None,
        (_, Value::Object(_)) => {
            let reply = json!({ "action": "accept", "content": given });
            Some(result(question, &reply))
        }
        (_, Value::Null) => Some(result(question, &json!({ "action": "decline" }))),
        _ => None,
    }
}

fn choose(question: &AgentQuestion, option: &str) -> Option<Bytes> {
    let (_, params) = read(&question.message);
    let known = options(&params).any(|it| it["optionId"] == option);
    let reply = json!({ "outcome": { "outcome": "selected", "optionId": option } });
    known.then(|| result(question, &reply))
}

/// Whoever does not choose has not allowed anything.
fn decline(question: &AgentQuestion, params: &Value) -> Bytes {
    let rejecting = options(params).find(|option| option["kind"] == "reject_once");
    let reply = match rejecting {
        Some(option) => {
            json!({ "outcome": { "outcome": "selected", "optionId": option["optionId"] } })
        }
        None => json!({ "outcome": { "outcome": "cancelled" } }),
    };
    result(question, &reply)
}

fn result(question: &AgentQuestion, reply: &Value) -> Bytes {
    let id = Value::from(&*question.id).to_string();
    compose::result(&id, reply.to_string().as_bytes())
}

fn permission_form(params: &Value, revision: McpRevision) -> Value {
    let mut choice = json!({ "type": "string", "title": "Your choice" });
    if revision.titles_choices() {
        choice["oneOf"] = options(params)
            .map(|option| json!({ "const": option["optionId"], "title": name(option) }))
            .collect();
    } else {
        choice["enum"] = options(params).map(|it| it["optionId"].clone()).collect();
        choice["enumNames"] = options(params).map(|option| json!(name(option))).collect();
    }
    json!({ "type": "object", "properties": { CHOICE: choice }, "required": [CHOICE] })
}

fn name(option: &Value) -> &str {
    let name = option["name"].as_str();
    name.or_else(|| option["optionId"].as_str())
        .unwrap_or_default()
}

fn options(params: &Value) -> impl Iterator<Item = &Value> {
    let options = params["options"].as_array().into_iter().flatten();
    options.filter(|option| option["optionId"].is_string())
}

fn title(method: Method, params: &Value) -> String {
    let said = match method {
        Method::RequestPermission => params["toolCall"]["title"].as_str(),
        _ => params["message"].as_str(),
    };
    said.unwrap_or("The agent asks for something").into()
}

fn read(message: &[u8]) -> (Method, Value) {
    let read = Envelope::read(message).ok();
    let method = read.as_ref().and_then(|it| it.method.as_deref());
    let method = method.map_or(Method::Unknown, Method::of);
    let params = read.and_then(|it| serde_json::from_str(it.params?.get()).ok());
    (method, params.unwrap_or_else(|| Value::Object(Map::new())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permission() -> AgentQuestion {
        let params = json!({
            "sessionId": "s",
            "toolCall": { "toolCallId": "t", "title": "Delete it all" },
            "options": [
                { "optionId": "yes", "name": "Do it", "kind": "allow_once" },
                { "optionId": "no", "name": "Leave it", "kind": "reject_once" },
            ],
        });
        let method = Method::RequestPermission.name();
        AgentQuestion {
            seq: 7,
            id: "s:7.1".into(),
            message: compose::request("s:7.1", method, params),
        }
    }

    fn outcome(answer: Option<Bytes>) -> Value {
        let answer: Value = serde_json::from_slice(&answer.expect("an answer")).unwrap();
        assert_eq!(answer["id"], "s:7.1");
        answer["result"]["outcome"].clone()
    }

    #[test]
    fn a_permission_is_a_form_with_one_choice() {
        let asked = elicitation(&permission(), McpRevision::June2025).unwrap();
        assert_eq!(asked["message"], "Delete it all");
        let choice = &asked["requestedSchema"]["properties"]["choice"];
        assert_eq!(choice["enum"], json!(["yes", "no"]));
        assert_eq!(choice["enumNames"], json!(["Do it", "Leave it"]));
        let asked = elicitation(&permission(), McpRevision::July2026).unwrap();
        let choice = &asked["requestedSchema"]["properties"]["choice"];
        assert_eq!(
            choice["oneOf"][0],
            json!({ "const": "yes", "title": "Do it" })
        );
    }

    #[test]
    fn only_a_choice_that_was_offered_allows_anything() {
        let elicited = |said: Value| answer(&permission(), &said);
        let chosen = json!({ "action": "accept", "content": { "choice": "yes" } });
        assert_eq!(outcome(elicited(chosen))["optionId"], "yes");
        for said in [
            json!({ "action": "decline" }),
            json!({ "action": "cancel", "content": { "choice": "yes" } }),
            json!({ "action": "accept" }),
        ] {
            assert_eq!(outcome(elicited(said.clone()))["optionId"], "no", "{said}");
        }
        let other = json!({ "action": "accept", "content": { "choice": "other" } });
        assert!(elicited(other).is_none());
        assert!(elicited(json!({})).is_none() && elicited(json!(1)).is_none());
        assert_eq!(
            outcome(answer_plainly(&permission(), &json!("yes")))["optionId"],
            "yes"
        );
        assert!(answer_plainly(&permission(), &json!("other")).is_none());
        assert!(answer_plainly(&permission(), &json!(null)).is_none());
    }
}

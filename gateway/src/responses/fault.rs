//! Errors in the form of this protocol: `{"error":{"message","type","param","code"}}`. The
//! fault and its status are decided where it is for all doors, in `error.rs`; here it only
//! gets another body.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use serde_json::json;

use crate::error::{ErrorDetail, FaultKind, GatewayError, fault};

/// Whether answers to requests at this path have that form.
pub fn is_ours(path: &str) -> bool {
    ["/v1/responses", "/v1/models"].iter().any(|ours| {
        let rest = path.strip_prefix(ours);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// An error of whichever stage, with the body that clients of this door expect.
pub fn in_own_form(mut response: Response<Body>) -> Response<Body> {
    let Some(detail) = response.extensions_mut().remove::<ErrorDetail>() else {
        return response;
    };
    let status = response.status();
    let error = json!({
        "message": detail.message,
        "type": kind(status),
        "param": detail.param,
        "code": detail.code.unwrap_or(code(status)),
    });
    let body = json!({ "error": error }).to_string();
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    *response.body_mut() = Body::from(body);
    response
}

fn kind(status: StatusCode) -> &'static str {
    match status {
        StatusCode::NOT_FOUND => "not_found",
        StatusCode::TOO_MANY_REQUESTS => "too_many_requests",
        status if status.is_server_error() => "server_error",
        _ => "invalid_request",
    }
}

fn code(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => "invalid_api_key",
        StatusCode::FORBIDDEN => "forbidden",
        StatusCode::NOT_FOUND => "not_found",
        StatusCode::METHOD_NOT_ALLOWED => "method_not_allowed",
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_exceeded",
        status if status.is_server_error() => "server_error",
        _ => "invalid_request",
    }
}

/// Something is wrong with this field.
pub fn invalid(param: &str, message: impl Into<String>) -> GatewayError {
    fault(FaultKind::Invalid, "invalid_value", Some(param), message)
}

/// It is known what the field asks for, and nobody can do it here.
pub fn unsupported(param: &str, message: impl Into<String>) -> GatewayError {
    fault(
        FaultKind::Invalid,
        "unsupported_parameter",
        Some(param),
        message,
    )
}

/// An unknown response and somebody else's are the same.
pub fn unknown_previous(id: &str) -> GatewayError {
    let text = format!("there is no response {}", baton_protocol::limits::echo(id));
    let param = Some("previous_response_id");
    fault(
        FaultKind::NotFound,
        "previous_response_not_found",
        param,
        text,
    )
}

pub fn unknown_response(id: &str) -> GatewayError {
    let text = format!("there is no response {}", baton_protocol::limits::echo(id));
    fault(
        FaultKind::NotFound,
        "response_not_found",
        Some("response_id"),
        text,
    )
}

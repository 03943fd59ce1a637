//! `/` and `/console/…`: the page for people, and the modules that it is made of. Its files are in
//! the folder `console/`; `build.rs` puts them into the binary.

use axum::body::Body;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse as _;

use crate::error::GatewayError;

include!(concat!(env!("OUT_DIR"), "/console.rs"));

pub struct Asset {
    name: &'static str,
    kind: &'static str,
    etag: &'static str,
    plain: &'static [u8],
    gzip: &'static [u8],
}

const PAGE: &str = "index.html";
/// Others may import it by this name, which stays. Everything else has the version in its path.
const CLIENT: &str = "baton-client.js";

/// Under the name of their version files never change.
const FOREVER: &str = "public, max-age=31536000, immutable";
/// Kept, and asked for again each time.
const ASK_AGAIN: &str = "no-cache";
/// Of another version than the page that asks for it, during a rollout.
const ONCE: &str = "no-store";

/// Nothing inline, nothing evaluated, nothing from elsewhere, and no frame around it. What an agent
/// says may be anything.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' data: blob:; connect-src 'self'; form-action 'none'; base-uri 'none'; \
    frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

const ALWAYS: [(HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::VARY, "Accept-Encoding"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("permissions-policy"),
        "camera=(), microphone=(), geolocation=(), payment=(), usb=()",
    ),
];

pub async fn page(headers: HeaderMap) -> Result<Response<Body>, GatewayError> {
    answer(PAGE, ASK_AGAIN, &headers)
}

pub async fn asset(
    Path(path): Path<String>,
    headers: HeaderMap,
) -> Result<Response<Body>, GatewayError> {
    if path == CLIENT {
        return answer(CLIENT, ASK_AGAIN, &headers);
    }
    match path.split_once('/') {
        Some((VERSION, name)) => answer(name, FOREVER, &headers),
        // The page came from a gateway of another version. The same name is the best there is.
        Some((other, name)) if is_version(other) => answer(name, ONCE, &headers),
        _ => Err(GatewayError::NotFound),
    }
}

fn is_version(segment: &str) -> bool {
    segment.len() == VERSION.len() && segment.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Files are found by their names in the table and nowhere else: there are no paths to climb.
fn answer(
    name: &str,
    caching: &'static str,
    asked: &HeaderMap,
) -> Result<Response<Body>, GatewayError> {
    let found = ASSETS.iter().find(|asset| asset.name == name);
    let asset = found.ok_or(GatewayError::NotFound)?;
    let known = asked
        .get(header::IF_NONE_MATCH)
        .and_then(|it| it.to_str().ok());
    let is_known = known.is_some_and(|known| known.split(',').any(|it| it.trim() == asset.etag));
    let mut response = if is_known {
        StatusCode::NOT_MODIFIED.into_response()
    } else if takes_gzip(asked) {
        let encoding = (header::CONTENT_ENCODING, "gzip");
        ([encoding, (header::CONTENT_TYPE, asset.kind)], asset.gzip).into_response()
    } else {
        ([(header::CONTENT_TYPE, asset.kind)], asset.plain).into_response()
    };
    let headers = response.headers_mut();
    let own = [(header::ETAG, asset.etag), (header::CACHE_CONTROL, caching)];
    for (name, value) in ALWAYS.into_iter().chain(own) {
        headers.insert(name, HeaderValue::from_static(value));
    }
    Ok(response)
}

fn takes_gzip(asked: &HeaderMap) -> bool {
    let values = asked.get_all(header::ACCEPT_ENCODING).iter();
    let mut offers = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    offers.any(|offer| {
        let (coding, quality) = offer.split_once(';').unwrap_or((offer, "q=1"));
        let refused = quality.trim().strip_prefix("q=").map(str::parse) == Some(Ok(0.0));
        coding.trim().eq_ignore_ascii_case("gzip") && !refused
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_and_its_modules_fit_into_their_budget() {
        let compressed: usize = ASSETS.iter().map(|asset| asset.gzip.len()).sum();
        assert!(compressed < 150_000, "{compressed} bytes");
        assert!(ASSETS.iter().any(|asset| asset.name == PAGE));
        assert!(ASSETS.iter().any(|asset| asset.name == CLIENT));
    }

    #[test]
    fn compressed_files_go_to_those_who_take_them() {
        for (offered, expected) in [
            ("gzip, deflate, br, zstd", true),
            ("br;q=1.0, GZIP;q=0.2", true),
            ("gzip;q=0", false),
            ("gzip; q=0.0, br", false),
            ("identity", false),
            ("x-gzip2", false),
        ] {
            let mut asked = HeaderMap::new();
            asked.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(offered));
            assert_eq!(takes_gzip(&asked), expected, "{offered}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }
}

//! What processes tell at `/metrics`.

/// The page of whatever listens there; `url` may be that of its agents.
pub async fn page(url: &str) -> String {
    let response = reqwest::get(url.replace("/acp", "/metrics")).await;
    let text = response.expect("metrics").text().await;
    text.expect("metrics")
}

/// The value of one metric, with its labels if it has any; 0 if it has never been counted.
pub fn value(page: &str, metric: &str) -> f64 {
    let lines = page.lines().filter_map(|line| line.strip_prefix(metric));
    // Neither a longer name nor an exemplar.
    let values = lines.filter_map(|rest| rest.strip_prefix(' ')?.split(' ').next());
    let mut values = values.map(|value| value.parse().expect("a number"));
    values.next().unwrap_or(0.0)
}

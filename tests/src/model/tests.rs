use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use super::*;

/// One request on a connection of its own; the status and the body of the reply.
fn post(model: &Model, path: &str, body: &Value) -> (u16, String) {
    let mut stream = TcpStream::connect(model.address).expect("connect");
    let body = body.to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\nContent-Length: {}\r\nX-Api-Key: dummy\r\nX-Mark: here\r\n\r\n",
        body.len()
    );
    stream
        .write_all((head + &body).as_bytes())
        .expect("send a request");
    stream
        .shutdown(std::net::Shutdown::Write)
        .expect("end the requests");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("read the reply");
    let (head, body) = reply.split_once("\r\n\r\n").unwrap_or_default();
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    (status.unwrap_or_default(), body.to_owned())
}

fn conversation(messages: &Value) -> Value {
    json!({"model": "some-model", "tools": [{"name": "Bash"}], "messages": messages})
}

fn ask(model: &Model, messages: &Value) -> Value {
    let (status, body) = post(model, "/v1/messages?beta=true", &conversation(messages));
    assert_eq!(status, 200);
    serde_json::from_str(&body).expect("a message")
}

fn text(message: &Value) -> &str {
    message["content"][0]["text"].as_str().unwrap_or_default()
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": [{"type": "text", "text": text}]})
}

fn assistant() -> Value {
    json!({"role": "assistant", "content": "…"})
}

#[test]
fn turns_follow_the_replies_since_the_newest_known_prompt() {
    let model = Model::script()
        .on("apples", [say("a0"), say("a1")])
        .on("pears", [say("p0"), say("p1")])
        .start();
    let said = |messages: Value| text(&ask(&model, &messages)).to_owned();
    assert_eq!(said(json!([user("apples")])), "a0");
    assert_eq!(said(json!([user("apples"), assistant(), user("?")])), "a1");
    assert_eq!(
        said(json!([
            user("apples"),
            assistant(),
            user("pears then"),
            assistant(),
            user("unknown")
        ])),
        "p1"
    );
    assert_eq!(said(json!([user("apples, no, pears")])), "p0");
    assert_eq!(
        said(json!([user("apples"), assistant(), assistant()])),
        "done"
    );
    assert_eq!(said(json!([user("plums")])), "ok");
    let kinds: Vec<Kind> = model.requests().into_iter().map(|r| r.kind).collect();
    assert_eq!(kinds[4..], [Kind::PastTheEnd, Kind::Side]);
}

#[test]
fn a_rule_may_be_for_one_model_or_one_system_prompt() {
    let model = Model::script()
        .rule(Rule::on("apples").model("large").turns([say("from large")]))
        .rule(
            Rule::on("apples")
                .system("pirate")
                .turns([say("from a pirate")]),
        )
        .rule(Rule::on("apples").side().turns([say("a title")]))
        .start();
    let said = |change: Value| {
        let mut body = conversation(&json!([user("apples")]));
        for (field, value) in change.as_object().into_iter().flatten() {
            body[field] = value.clone();
        }
        let reply = post(&model, "/v1/messages", &body).1;
        text(&serde_json::from_str(&reply).expect("a message")).to_owned()
    };
    assert_eq!(said(json!({})), "ok");
    assert_eq!(said(json!({"model": "the-large-one"})), "from large");
    assert_eq!(said(json!({"system": "You are a pirate"})), "from a pirate");
    assert_eq!(said(json!({"tools": []})), "a title");
}

#[test]
fn a_failure_is_no_reply_and_is_passed_over_once_spent() {
    let model = Model::script()
        .on(
            "apples",
            [
                say("a0"),
                error(529, "overloaded_error", "busy").times(2),
                say("a1"),
            ],
        )
        .start();
    let second = conversation(&json!([user("apples"), assistant()]));
    let status = || post(&model, "/v1/messages", &second).0;
    assert_eq!([status(), status(), status()], [529, 529, 200]);
    let third = json!([user("apples"), assistant(), assistant()]);
    assert_eq!(text(&ask(&model, &third)), "done");
}

#[test]
fn a_stream_says_what_the_whole_message_says() {
    let both = tools([say("look:"), bash("ls"), tool("Read", json!({"n": 1}))]);
    let model = Model::script().on("apples", [both]).start();
    let mut body = conversation(&json!([user("apples")]));
    let whole: Value =
        serde_json::from_str(&post(&model, "/v1/messages", &body).1).expect("a message");
    assert_eq!(whole["stop_reason"], "tool_use");
    assert_eq!(whole["content"][1]["input"]["command"], "ls");

    body["stream"] = json!(true);
    let stream = post(&model, "/v1/messages", &body).1;
    let data = stream
        .lines()
        .filter_map(|line| line.strip_prefix("data: "));
    let events: Vec<Value> = data
        .map(|data| serde_json::from_str(data).expect("an event"))
        .collect();
    let deltas: Vec<&Value> = events
        .iter()
        .filter(|event| event["type"] == "content_block_delta")
        .map(|event| &event["delta"])
        .collect();
    assert_eq!(deltas[0]["text"], whole["content"][0]["text"]);
    for index in [1, 2] {
        let input = deltas[index]["partial_json"].as_str().unwrap_or_default();
        let input: Value = serde_json::from_str(input).expect("the input");
        assert_eq!(input, whole["content"][index]["input"]);
    }
    let last = events.iter().rev().nth(1).expect("a closing event");
    assert_eq!(last["delta"]["stop_reason"], "tool_use");
    assert_eq!(events.last().expect("an end")["type"], "message_stop");
}

#[test]
fn a_gate_holds_the_reply_until_it_is_opened() {
    let model = Model::script()
        .on("apples", [gate("g").then(say("at last"))])
        .start();
    std::thread::scope(|scope| {
        let reply = scope.spawn(|| ask(&model, &json!([user("apples")])));
        model.wait_at("g");
        assert!(!reply.is_finished());
        model.open("g");
        assert_eq!(text(&reply.join().expect("a reply")), "at last");
    });
    assert_eq!(text(&ask(&model, &json!([user("apples")]))), "at last");
}

#[test]
fn a_reply_may_stop_halfway() {
    let model = Model::script()
        .on("apples", [say("the first words").halfway("g")])
        .start();
    let mut wish = conversation(&json!([user("apples")]));
    wish["stream"] = json!(true);
    let wish = wish.to_string();
    let mut stream = TcpStream::connect(model.address).expect("connect");
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\ncontent-length: {}",
        wish.len()
    );
    write!(stream, "{head}\r\n\r\n{wish}").expect("send a request");
    stream
        .shutdown(std::net::Shutdown::Write)
        .expect("end the requests");
    let mut first = String::new();
    while !first.contains("the first words") {
        let mut part = [0; 4096];
        let length = stream.read(&mut part).expect("read the reply");
        first.push_str(&String::from_utf8_lossy(&part[..length]));
    }
    model.wait_at("g");
    assert!(!first.contains("event: content_block_stop"), "{first}");
    model.open("g");
    let mut rest = String::new();
    stream.read_to_string(&mut rest).expect("read the end");
    assert!(rest.contains("event: content_block_stop"), "{rest}");
    assert!(rest.contains("event: message_stop"), "{rest}");
}

#[test]
fn a_model_that_ends_lets_nobody_wait() {
    let model = Model::script()
        .on("apples", [gate("never").then(say("late"))])
        .start();
    let address = model.address;
    let asked = std::thread::spawn(move || {
        let mut stream = TcpStream::connect(address).expect("connect");
        let body = conversation(&json!([user("apples")])).to_string();
        let head = format!(
            "POST /v1/messages HTTP/1.1\r\ncontent-length: {}",
            body.len()
        );
        let _ = write!(stream, "{head}\r\n\r\n{body}");
        let mut reply = [0; 8];
        stream.read(&mut reply)
    });
    model.wait_at("never");
    drop(model);
    assert!(asked.join().is_ok());
}

#[test]
fn compaction_and_side_requests_are_known() {
    let model = Model::script()
        .on("apples", [say("a0")])
        .summary("All eaten.")
        .start();
    let wish = user("apples. Write an <analysis> and then a <summary>");
    assert!(text(&ask(&model, &json!([wish]))).contains("<summary>All eaten.</summary>"));
    let (status, count) = post(&model, "/v1/messages/count_tokens", &json!({"a": "b"}));
    assert_eq!((status, count.contains("input_tokens")), (200, true));
    let kinds: Vec<Kind> = model.requests().into_iter().map(|r| r.kind).collect();
    assert_eq!(kinds, [Kind::Compaction, Kind::CountTokens]);
}

#[test]
fn requests_are_kept_without_the_key() {
    let model = Model::script().on("apples", [say("a0")]).start();
    let result = json!({
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "t1", "is_error": true,
            "content": [{"type": "text", "text": "no such file"}]}],
    });
    ask(&model, &json!([user("apples"), assistant(), result]));
    let request = model.wait_request("apples", |request| request.contains("apples"));
    assert_eq!(request.header("x-mark"), Some("here"));
    assert_eq!(request.header("x-api-key"), None);
    assert_eq!(request.tools(), ["Bash"]);
    let results = request.tool_results();
    assert_eq!(
        (results[0].text.as_str(), results[0].is_error),
        ("no such file", true)
    );
    assert!(request.contains("such file") && !request.contains("plums"));
}

#[test]
fn a_body_in_chunks_is_read_whole() {
    let model = Model::script().on("apples", [say("a0")]).start();
    let body = conversation(&json!([user("apples")])).to_string();
    let (first, second) = body.split_at(20);
    let mut stream = TcpStream::connect(model.address).expect("connect");
    write!(
        stream,
        "POST /v1/messages HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n\
         {:x}\r\n{first}\r\n{:x};note\r\n{second}\r\n0\r\n\r\n",
        first.len(),
        second.len(),
    )
    .expect("send a request");
    let found = model.wait_request("apples", |request| request.contains("apples"));
    assert_eq!(found.messages().len(), 1);
}

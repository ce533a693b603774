//! An MCP server with one tool, `ask`, which asks the user for a name. Only such a server makes the
//! elicitation events fire.

use std::io::{self, BufRead, Write};

use serde_json::{Value, json};

fn main() -> io::Result<()> {
    let mut asked = Value::Null;
    for line in io::stdin().lock().lines() {
        let message: Value = serde_json::from_str(&line?)?;
        if let Some(reply) = reply(&message, &mut asked) {
            let mut out = io::stdout().lock();
            writeln!(out, "{reply}")?;
            out.flush()?;
        }
    }
    Ok(())
}

/// Answers one message. `asked` is the id of the tool call that waits for the user.
fn reply(message: &Value, asked: &mut Value) -> Option<Value> {
    let id = message.get("id")?.clone();
    let result = match message["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "asker", "version": "1"},
        }),
        Some("tools/list") => json!({"tools": [{
            "name": "ask",
            "description": "asks the person for a name",
            "inputSchema": {"type": "object", "properties": {}},
        }]}),
        Some("tools/call") => {
            *asked = id;
            return Some(question());
        }
        None => {
            let answer = format!("the person said {}", message["result"]["action"]);
            let content = json!([{"type": "text", "text": answer}]);
            let call = asked.take();
            return Some(json!({"jsonrpc": "2.0", "id": call, "result": {"content": content}}));
        }
        Some(other) => {
            let error = json!({"code": -32601, "message": format!("no {other} here")});
            return Some(json!({"jsonrpc": "2.0", "id": id, "error": error}));
        }
    };
    Some(json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

fn question() -> Value {
    let name = json!({"name": {"type": "string"}});
    json!({
        "jsonrpc": "2.0",
        "id": "question",
        "method": "elicitation/create",
        "params": {
            "message": "What is your name?",
            "requestedSchema": {"type": "object", "properties": name, "required": ["name"]},
        },
    })
}

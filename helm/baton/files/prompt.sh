# Run by `helm test`: a connection, a session, a prompt, and the answer that is expected.
# The Pod plays the proxy that has ended TLS; a gateway with a certificate of its own does not listen to that.
call() {
  curl -sS -k --max-time 60 "$URL" -H "Content-Type: application/json" \
    -H "X-Forwarded-For: 192.0.2.1" -H "X-Forwarded-Proto: https" \
    ${CREDENTIAL:+-H "Authorization: Bearer $CREDENTIAL"} "$@"
}
STREAM="Accept: text/event-stream"

opened=$(call -i -d '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}')
connection=$(printf '%s\n' "$opened" | tr -d '\r' | sed -n 's/^[Aa]cp-[Cc]onnection-[Ii]d: //p')
[ -n "$connection" ] || { echo "initialize opened no connection:"; echo "$opened"; exit 1; }

made=$(call -N -H "$STREAM" -H "Acp-Connection-Id: $connection" \
  -d '{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/tmp","mcpServers":[]}}')
session=$(printf '%s\n' "$made" | sed -n 's/.*"sessionId":"\([^"]*\)".*/\1/p')
[ -n "$session" ] || { echo "session/new made no session:"; echo "$made"; exit 1; }

answer=$(call -N -H "$STREAM" -H "Acp-Connection-Id: $connection" -H "Acp-Session-Id: $session" \
  -d '{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"'"$session"'","prompt":[{"type":"text","text":"'"$PROMPT"'"}]}}')
echo "$answer"
case $answer in
  *"$EXPECT"*stopReason*) echo "the prompt was answered" ;;
  *) echo "the answer has no \"$EXPECT\""; exit 1 ;;
esac

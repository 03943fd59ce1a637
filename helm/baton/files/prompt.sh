# Run by `helm test`: a connection, a session, a prompt, and the answer that is expected.
# The Pod plays the proxy that has ended TLS; a gateway with a certificate of its own does not listen to that.
call() {
  curl -sS -k --max-time 60 "$URL" -H "Content-Type: application/json" \
    -H "X-Forwarded-For: 192.0.2.1" -H "X-Forwarded-Proto: https" \
    ${CREDENTIAL:+-H "Authorization: Bearer $CREDENTIAL"} "$@"
}
STREAM="Accept: text/event-stream"

# After an installation the first worker may still be on its way: for two minutes it is waited for.
tries=120
until
  opened=$(call -i -d '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}' || true)
  connection=$(printf '%s\n' "$opened" | tr -d '\r' | sed -n 's/^[Aa]cp-[Cc]onnection-[Ii]d: //p')
  case $opened in *'"protocolVersion"'*) [ -n "$connection" ] ;; *) false ;; esac
do
  tries=$((tries - 1))
  case $opened in HTTP/*" 4"*) tries=0 ;; esac
  [ "$tries" -gt 0 ] || { echo "initialize opened no connection:"; echo "$opened"; exit 1; }
  sleep 1
done

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

"""Drives Claude Code with Anthropic's SDK: PROGRAM, FOLDER, PROMPT, TOOL."""
import sys

import anyio
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, HookMatcher


async def no_opinion(input, tool_use_id, context):
    return {}


async def main():
    program, folder, prompt, tool = sys.argv[1:]
    hooks = {"PreToolUse": [HookMatcher(matcher=tool, hooks=[no_opinion] * 20)]}
    options = ClaudeAgentOptions(
        cli_path=program, cwd=folder, hooks=hooks, permission_mode="bypassPermissions"
    )
    async with ClaudeSDKClient(options=options) as client:
        await client.query(prompt)
        async for message in client.receive_response():
            pass


anyio.run(main)

-- What do expensive items earn without television, by store, catalog page and web site?
WITH sold AS (
  SELECT
    'in stores' AS channel,
    s_store_id AS id,
    ss_ext_sales_price AS price,
    coalesce(sr_return_amt, 0) AS returned,
    ss_net_profit - coalesce(sr_net_loss, 0) AS profit
  FROM store_sales
  JOIN date_dim ON d_date_sk = ss_sold_date_sk
  JOIN store ON s_store_sk = ss_store_sk
  JOIN item ON i_item_sk = ss_item_sk
  JOIN promotion ON p_promo_sk = ss_promo_sk
  LEFT JOIN store_returns ON sr_item_sk = ss_item_sk AND sr_ticket_number = ss_ticket_number
  WHERE d_date BETWEEN DATE'2000-08-15' AND DATE'2000-09-14'
    AND i_current_price > 5
    AND p_channel_tv = 'N'
  UNION ALL
  SELECT
    'by catalog',
    cp_catalog_page_id,
    cs_ext_sales_price,
    coalesce(cr_return_amount, 0),
    cs_net_profit - coalesce(cr_net_loss, 0)
  FROM catalog_sales
  JOIN date_dim ON d_date_sk = cs_sold_date_sk
  JOIN catalog_page ON cp_catalog_page_sk = cs_catalog_page_sk
  JOIN item ON i_item_sk = cs_item_sk
  JOIN promotion ON p_promo_sk = cs_promo_sk
  LEFT JOIN catalog_returns ON cr_item_sk = cs_item_sk AND cr_order_number = cs_order_number
  WHERE d_date BETWEEN DATE'2000-08-15' AND DATE'2000-09-14'
    AND i_current_price > 5
    AND p_channel_tv = 'N'
  UNION ALL
  SELECT
    'on the web',
    web_site_id,
    ws_ext_sales_price,
    coalesce(wr_return_amt, 0),
    ws_net_profit - coalesce(wr_net_loss, 0)
  FROM web_sales
  JOIN date_dim ON d_date_sk = ws_sold_date_sk
  JOIN web_site ON web_site_sk = ws_web_site_sk
  JOIN item ON i_item_sk = ws_item_sk
  JOIN promotion ON p_promo_sk = ws_promo_sk
  LEFT JOIN web_returns ON wr_item_sk = ws_item_sk AND wr_order_number = ws_order_number
  WHERE d_date BETWEEN DATE'2000-08-15' AND DATE'2000-09-14'
    AND i_current_price > 5
    AND p_channel_tv = 'N'
)
SELECT
  channel, id, sum(price) AS sales, sum(returned) AS total_returned, sum(profit) AS total_profit
FROM sold
GROUP BY ROLLUP (channel, id)
ORDER BY channel, id, sales
LIMIT 200
